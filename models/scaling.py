"""Scaling of the scores of C classes: temperature, vector and bias-corrected scaling as members of one model.

    y ~ Categorical(q),      log q_k = scale_k x_k + bias_k - log sum_j exp(scale_j x_j + bias_j),      x_k = log p_k
    scale_k = exp(scale_spread scale_raw_k) / temperature,      bias_k = bias_spread bias_raw_k,      k = 1 .. C

    temperature scaling                  scale_spread = 0, bias_spread = 0
    no-bias vector scaling                                 bias_spread = 0
    bias-corrected temperature scaling   scale_spread = 0
    vector scaling                       both free

p is the row of probabilities that the classifier gave the case, 0 <= p_k, summing to 1; pass 0 as a spread's prior
setting to leave the spread out. Logits l take part as p = softmax(l): a constant added to a row changes nothing.

Story. A network that was trained to the end is too sure of every class (temperature > 1); it is surer of some classes
than of others (scale_k); and it gives some classes too often, because they were commoner where it was trained or easier
to learn (bias_k). Those are the only faults that this model knows. Probabilities are kept at 1e-12 or more.

Priors
    temperature ~ LogNormal(0, 0.7)     centred on no change; 0.5 and 2 are one sd
    scale_spread ~ HalfNormal(0.5)      how far the classes' scales lie apart, in logs; near 0 they share one
    bias_spread ~ HalfNormal(1)         how far the biases lie apart, in log-odds; near 0 there are none
    scale_raw, bias_raw ~ Normal(0, 1)  of each class; their spreads are learned, so that many classes with few cases
                                        share what they have, and a class without cases has its scale and its bias from
                                        the others

The table is of the first of three classes, of probability s; the other two share what is left.

Prior predictive, by ``uv run python models/reference/card.py scaling``:

              q(0.05)  q(0.25)  q(0.50)  q(0.75)  q(0.95)  mean|q-s|  positives
        5 %       0.00     0.01     0.06     0.16     0.35       0.04       0.12
       50 %       0.04     0.22     0.47     0.72     0.93       0.15       0.47
       95 %       0.41     0.72     0.93     1.00     1.00       0.41       0.80

Plain NUTS on this file as it stands (same command; three classes data, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 1077, largest R-hat 1.01, 0 divergences.

Limits
    - Each q_k depends on the other classes through the sum alone: that two classes are taken for each other more than
      the scores say cannot be learned. Matrix scaling could, with C^2 parameters.
    - A constant added to every bias_k changes nothing. Only differences of biases are identified; so are scales and
      biases of a class whose x_k hardly varies.
    - Two classes of one temperature are Platt's model with intercept bias_2 - bias_1 and slope 1 / temperature; of two
      scales, beta calibration.
    - Probabilities of exactly 0 stand at x = -27.6 and have much leverage where such a class occurs.
    - Without overlap of the classes, or without cases of one, likelihood alone has no maximum; the answer rests on the
      prior.
    - Mixing: spreads and raw values are correlated where each class has many cases. In four fits each to 1000
      cases of 10 classes, 4 x 1000 draws, the smallest effective sample size was 753 to 1111 for bias-corrected scaling
      and 495 to 1156 for vector scaling.

References
    Alexandari, A., Kundaje, A. and Shrikumar, A. (2020). Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation. ICML. Sections on calibration: the four members, by maximum likelihood.
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern neural networks. ICML.
    Temperature and vector scaling.
"""

import numpy as np
import pymc as pm


def model(
    scores: np.ndarray,
    y: np.ndarray,
    *,
    temperature_log_mean: float = 0.0,
    temperature_log_sd: float = 0.7,
    scale_spread_sd: float = 0.5,
    bias_spread_sd: float = 1.0,
) -> pm.Model:
    """Scaling of probabilities ``(n, C)`` with labels ``(n,)`` that are column numbers 0 to C - 1."""
    log_p = np.log(np.maximum(scores, 1e-12))
    log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    with pm.Model(coords={"case": np.arange(len(y)), "class": np.arange(log_p.shape[1])}) as m:
        x = pm.Data("x", log_p, dims=("case", "class"))
        eta = x / pm.LogNormal("temperature", temperature_log_mean, temperature_log_sd)
        if scale_spread_sd > 0:
            scale_spread = pm.HalfNormal("scale_spread", scale_spread_sd)
            eta = eta * pm.math.exp(scale_spread * pm.Normal("scale_raw", dims="class"))
        if bias_spread_sd > 0:
            bias_spread = pm.HalfNormal("bias_spread", bias_spread_sd)
            eta = eta + bias_spread * pm.Normal("bias_raw", dims="class")
        pm.Categorical("y", logit_p=eta, observed=y, dims="case")
    return m
