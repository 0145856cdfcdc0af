"""CASIMAC: a Gaussian process on the latents that a training-data transformation f gives the cases.

    z_j ~ MvNormal(0, signal_variance (K + noise_ratio I)),      j = 1 .. C - 1, one for each latent axis
    K_ab = (1 + r + r^2 / 3) exp(-r),      r = sqrt(5) |x_a - x_b| / length_scale      (Matern 5/2)
    P(class y at x*) = P(z* in cone_y),      cone_y = {z : p_y . z >= p_k . z for all k}

x are features with mean 0 and standard deviation 1, |.| is the Euclidean distance, z = f(x) / root mean square of f are
the latents of the training cases, p_1 .. p_C the vertices of a regular simplex with |p_y| = 1 and sum 0. f pulls a case
towards the vertex of its own class (by alpha / mean distance to the k nearest cases of that class) and pushes it away
from the vertex of every other class (by beta times the mean distance to the k nearest cases of that class).

Story. A case deep among its own kind lies deep in the cone of its class; one between two classes lies near the border
of their cones. Latents vary smoothly over the features, up to noise; new cases have latents that vary in the same way,
and a new case's class is the cone that its latent falls into. The labels take part through f alone: given the latents
this is a regression, and the probability of a class is how much of the predictive distribution lies in its cone.

Priors
    length_scale ~ LogNormal(log m, 1)       m = median distance between cases: the prior asks neither for units nor for
                                             a number of features; length_scale_log_sd = 1
    noise_ratio ~ LogNormal(log 0.1, 1.5)    noise by signal variance: latents are mostly signal, but overlap of
                                             the classes makes them rough; noise_ratio_log_sd = 1.5
    signal_variance ~ InverseGamma(2, 1)     latents are scaled to a mean square of 1; signal_variance_shape = 2,
                                             signal_variance_scale = 1. Conjugate: the library integrates it out

Prior predictive, exact quantiles: l = length_scale / m, the correlation of two cases the distance m apart, the
noise's variance by the signal's, and the signal's variance.

                  l  correlation at m  noise_ratio  signal_variance
        5 %    0.19              0.00         0.01             0.21
       50 %    1.00              0.52         0.10             0.60
       95 %    5.18              0.97         1.18             2.81

With feature_log_sd = 0.5 and ten features, the correlation of two cases the distance m apart, equally far in each
feature, has the quantiles 0.00, 0.40 and 0.96; the longest of ten length-scales is 2.5, 4.5 and 9.4 times the shortest.

Plain NUTS on this file as it stands (the data of ``reference/casimac.json``, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1311, largest R-hat 1.00, 0 divergences.

Limits
    - f is computed from the labels, so the latents of cases near each other share labels. The likelihood takes them as
      noisy values of one smooth function. It knows nothing of the classes, and does not tell a good f from a bad one:
      alpha, beta and k are no parameters of this model. The library weighs them by how they predict left-out labels.
    - Where cases are few, the process is surer of its cones than it is right. The library multiplies its predictive
      standard deviation by a factor of at least 1 that the left-out labels ask for, too.
    - One kernel for all latent axes. With one length-scale for all features, those without information are not found;
      length_scale exp(feature_log_sd relative), relative ~ Normal(0, 1), gives each feature its own.
    - The probability is that of a new case's latent, noise included. It is not a rate of which labels are draws.
    - The generative alternative, a latent process with the cone as likelihood of the labels themselves, needs one
      unknown for each case and latent axis: `casimac_generative.py`, with what was measured. No class samples it.

References
    Heese, R., Schmid, J., Walczak, M. and Bortz, M. (2023). Calibrated simplex-mapping classification. PLOS ONE 18.
    Eqs. 10-13: simplex and cones; 14-16: f; 35-37: class probabilities. Hyperparameters there maximise the likelihood.
    Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian processes for machine learning. Eqs. 2.30, 4.17.
"""

import numpy as np
import pymc as pm


def model(
    x: np.ndarray,
    z: np.ndarray,
    feature_log_sd: float | None = None,
    *,
    length_scale_log_sd: float = 1.0,
    noise_ratio_log_mean: float = float(np.log(0.1)),
    noise_ratio_log_sd: float = 1.5,
    signal_variance_shape: float = 2.0,
    signal_variance_scale: float = 1.0,
) -> pm.Model:
    """Latents ``(n, C - 1)`` of mean square 1 over features ``(n, d)`` of mean 0 and standard deviation 1.

    With `feature_log_sd`, the library's 0.5, every feature has a length-scale of its own.
    """
    distance = np.sqrt(((x[:, None] - x) ** 2).sum(axis=-1))
    middle = np.median(distance[np.triu_indices(len(x), 1)])
    coords = {"case": np.arange(len(x)), "other": np.arange(len(x)), "latent": np.arange(z.shape[1])}
    coords["feature"] = np.arange(x.shape[1])
    with pm.Model(coords=coords) as m:
        length_scale = pm.LogNormal("length_scale", np.log(middle), length_scale_log_sd)
        noise_ratio = pm.LogNormal("noise_ratio", noise_ratio_log_mean, noise_ratio_log_sd)
        signal_variance = pm.InverseGamma("signal_variance", signal_variance_shape, signal_variance_scale)
        if feature_log_sd is None:
            r = np.sqrt(5) * pm.Data("distance", distance, dims=("case", "other")) / length_scale
        else:
            relative = pm.Normal("relative", 0, 1, dims="feature")
            scaled = pm.Data("x", x, dims=("case", "feature")) / length_scale / pm.math.exp(feature_log_sd * relative)
            square = ((scaled[:, None] - scaled) ** 2).sum(axis=-1)
            r = np.sqrt(5) * pm.math.sqrt(pm.math.maximum(square, 1e-30))
        correlation = (1 + r + r**2 / 3) * pm.math.exp(-r)
        covariance = signal_variance * (correlation + noise_ratio * np.eye(len(x)))
        pm.MvNormal("z", np.zeros(len(x)), cov=covariance, observed=z.T, dims=("latent", "case"))
    return m
