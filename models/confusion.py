"""Confusion counts: class proportions of unlabelled cases from how often each class is predicted.

    p ~ Dirichlet(concentration),      source labels n_1 .. n_C ~ Multinomial(p)
    M_i ~ Dirichlet(spread / C),       source predictions n_i1 .. n_iC of the cases of class i ~ Multinomial(M_i)
    q ~ Dirichlet(concentration),      target predictions t_1 .. t_C ~ Multinomial(q M),      n_i = sum_j n_ij

M_ij is the probability that a case of class i is predicted to be of class j, p and q are the proportions of the classes
in source and target, and the class weights are q / p. Labels of other target cases are counts ~ Multinomial(q).

Story. All that is kept of a case is the class that the classifier predicts for it. The labelled source cases say how
often it errs, and in which direction; label shift says that it errs alike in the target. If class 2 is predicted more
often there, then there are more cases of class 2, or of the classes that are taken for it.

Priors
    M_i ~ Dirichlet(spread / C), spread = 1     worth one case for each row, whatever the number of classes: rows of a
                                                good classifier are near a corner. One for each cell would say that
                                                ten classes are hardly told apart
    p, q ~ Dirichlet(concentration), concentration = 0.5      a class may well be near absent

Prior predictive, of a cell of M and of a proportion: quantiles of Beta(1/C, 1 - 1/C) and Beta(1/2, (C - 1)/2).

              M, C = 2  M, C = 5  M, C = 10  q, C = 2  q, C = 5  q, C = 10
        5 %       0.01      0.00       0.00      0.01      0.00       0.00
       50 %       0.50      0.04       0.00      0.50      0.12       0.05
       95 %       0.99      0.86       0.65      0.99      0.66       0.36

Plain NUTS on this file as it stands (the data of ``reference/confusion.json``, 4 x 1000 draws, target_accept 0.9):
smallest bulk ESS 2194, largest R-hat 1.00, 0 divergences.

Limits
    - Probabilities are thrown away, and so are most of the differences between cases: intervals are 1.5 to 3 times as
      wide as those of the model in ``label_shift.py``. In exchange the probabilities need not be calibrated.
    - Two classes that are predicted alike are not told apart; their proportions rest on the prior, and their intervals
      are wide.
    - Mixing: where M is near singular, q and M are correlated, and rows without source cases are as wide as the prior.

References
    Lipton, Z., Wang, Y.-X. and Smola, A. (2018). Detecting and correcting for label shift with black box predictors.
    ICML. The point estimate of q / p from the same counts.
    Ziegler, A. and Czyz, P. (2024). Bayesian quantification with black-box estimators. TMLR. Section 3: this
    likelihood; counts are sufficient.
"""

from typing import Any

import numpy as np
import pymc as pm


def model(
    source: np.ndarray,
    target: np.ndarray,
    *,
    labelled: Any = None,
    concentration: float = 0.5,
    spread: float = 1.0,
) -> pm.Model:
    """Source and target proportions from confusion counts ``(C, C)``, true class first, and predictions ``(C,)``.

    `labelled` are counts ``(C,)`` of the labels of other target cases.
    """
    n = np.sum(source, axis=1)
    k = len(n)
    with pm.Model(coords={"class": np.arange(k), "predicted": np.arange(k)}) as m:
        p = pm.Dirichlet("p", np.full(k, concentration), dims="class")
        q = pm.Dirichlet("q", np.full(k, concentration), dims="class")
        confusion = pm.Dirichlet("confusion", np.full((k, k), spread / k), dims=("class", "predicted"))
        pm.Multinomial("source_labels", n=n.sum(), p=p, observed=n, dims="class")
        pm.Multinomial("source", n=n, p=confusion, observed=source, dims=("class", "predicted"))
        pm.Multinomial("target", n=np.sum(target), p=pm.math.dot(q, confusion), observed=target, dims="predicted")
        if labelled is not None:
            pm.Multinomial("y", n=np.sum(labelled), p=q, observed=labelled, dims="class")
    return m
