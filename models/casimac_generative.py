"""Generative CASIMAC: a latent Gaussian process whose noisy value at a case lies in the cone of the case's label.

    f_j ~ MvNormal(0, amplitude^2 (K + 1e-6 I)),      j = 1 .. C - 1, one for each latent axis
    K_ab = (1 + r + r^2 / 3) exp(-r),      r = sqrt(5) |x_a - x_b| / length_scale      (Matern 5/2)
    P(y_i = y) = P(f_i + e in cone_y),      e ~ Normal(0, I),      cone_y = {z : p_y . z >= p_k . z for all k}
               = integral of phi(v - a_iy) prod_{k != y} Phi(v - a_ik) over v,      a_iy = p_y . f_i / sqrt(C / (C - 1))

x are features with mean 0 and standard deviation 1, |.| is the Euclidean distance, p_1 .. p_C the vertices of a regular
simplex with |p_y| = 1 and sum 0. Of two classes P(y_i = 1) = Phi(f_i): probit regression on a Gaussian process.

Story. Every case has a latent, and latents vary smoothly over the features. Noise is added, and the cone that the sum
falls into is the label. `casimac.py` computes latents from the labels and then takes them for data; here they are
unknown, and a label says no more than the cone. The noise has variance 1, for a common factor of f and e changes no
label.

Priors
    length_scale ~ LogNormal(log m, 1)       m = median distance between cases, as in `casimac.py`;
                                             length_scale_log_sd = 1
    amplitude ~ HalfNormal(3)                from labels that have nothing to do with the features to such as they
                                             settle; separated classes bound it by the prior alone; amplitude_sd = 3

Prior predictive, exact quantiles: l = length_scale / m, the correlation of two cases the distance m apart, the
amplitude, and the probability of the likelier of two classes.

                  l  correlation at m  amplitude  likelier
        5 %    0.19              0.00       0.19      0.52
       50 %    1.00              0.52       2.02      0.86
       95 %    5.18              0.97       5.88      1.00

Plain NUTS on this file as it stands (``python tests/studies/casimac_generative.py --check`` compares it with the
library's class; two sets of 40 cases, of two and of four classes, 4 x 1000 draws, target_accept 0.9): smallest bulk ESS
438, largest R-hat 1.006, 7 and 0 divergences, one to two minutes of one core. Mean probabilities of the labels agree
with those of `GenerativeCASIMACClassifier` to .011 and .006.

Limits
    - One unknown for each case and latent axis, and hardly anything known of length-scale and amplitude: chains move
      through them slowly. Of the library's fits with 2 x 500 draws .29 passed the convergence checks at 40 cases and
      .46 at 100; largest R-hat 1.04 and 1.06. Latents mix well, and so do probabilities.
    - Beside `CASIMACClassifier`, on 35 data sets with known probabilities of each size
      (``tests/studies/results/casimac_generative.txt``): at 40 cases log loss .707 against .723 (difference .016,
      standard error .004), 90 % intervals hold .925 against .888 and are .534 against .545 wide; at 100 cases log loss
      .630 against .638 (.008, .002), coverage .944 against .902, width .319 and .316. It predicts better at both sizes;
      300 cases were not compared. It takes seven and thirty times as long.
    - A constant is no parameter: rates of the classes that are far from equal ask for amplitude.
    - One length-scale for all features and one kernel for all latent axes.

References
    Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification. PLOS ONE 18.
    Eqs. 10-13: simplex and cones.
    Girolami, M. and Rogers, S. (2006). Variational Bayesian multinomial probit regression with Gaussian process priors.
    Neural Computation 18. The likelihood, with one latent for each class.
    Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian processes for machine learning. Eqs. 3.9, 4.17.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def model(
    x: np.ndarray,
    y: np.ndarray,
    *,
    length_scale_log_sd: float = 1.0,
    amplitude_sd: float = 3.0,
) -> pm.Model:
    """Labels ``(n,)`` that are column numbers 0 to C - 1, over features ``(n, d)`` of mean 0, standard deviation 1."""
    n, classes = len(x), int(y.max()) + 1
    distance = np.sqrt(((x[:, None] - x) ** 2).sum(axis=-1))
    middle = np.median(distance[np.triu_indices(n, 1)])
    axes = np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]  # times sqrt(C / (C - 1)), the vertices
    step = 0.25
    nodes = np.arange(-14, 7, step)  # of the integral, from the largest a
    cases, latents = np.arange(n), np.arange(classes - 1)
    with pm.Model(coords={"case": cases, "other": cases, "latent": latents, "class": np.arange(classes)}) as m:
        length_scale = pm.LogNormal("length_scale", np.log(middle), length_scale_log_sd)
        amplitude = pm.HalfNormal("amplitude", amplitude_sd)
        r = np.sqrt(5) * pm.Data("distance", distance, dims=("case", "other")) / length_scale
        correlation = (1 + r + r**2 / 3) * pm.math.exp(-r) + 1e-6 * np.eye(n)
        raw = pm.Normal("raw", dims=("case", "latent"))
        f = amplitude * pm.math.dot(pt.linalg.cholesky(correlation), raw)
        a = pm.math.dot(f, axes.T)
        v = a.max(axis=1)[:, None, None] + nodes - a[:, :, None]  # from each a
        below = pm.math.log(0.5 * pm.math.erfc(-v / np.sqrt(2)))
        at = -0.5 * v**2 - 0.5 * np.log(2 * np.pi) - below + below.sum(axis=1, keepdims=True)
        pm.Categorical(
            "y", logit_p=pm.math.logsumexp(at, axis=2, keepdims=False) + np.log(step), observed=y, dims="case"
        )
    return m
