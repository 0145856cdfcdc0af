"""Manifold-regularised isotonic regression of several scores (MR-MIC): a value for every calibration row.

    minimise  sum_i (y_i - p_i)^2 + (lambda / 2) p' Omega p      subject to  p_i <= p_j  where  S_i <= S_j, S_i != S_j

S_i in [0, 1]^M are the scores of row i: probabilities, the sigmoid of log-odds, or mid-ranks of raw scores. Between the
rows p is interpolated linearly over their Delaunay triangulation; outside their convex hull it is that of the nearest
row. The map is nondecreasing on the calibration rows and need not be so between them.
Zhong & Kwok (2013), as restated by Wang & Liu (2020), Eq. 6 and section 5.

Where the sources leave a choice:

- Omega is the graph Laplacian of the similarities w_ij = 1 / ||S_i - S_j||, so that the penalty is
  (lambda / 2) sum_{i<j} w_ij (p_i - p_j)^2. Wang & Liu call Omega "the similarity matrix", but the quadratic form of
  the similarities themselves has an infinite diagonal, need not be convex and rewards neighbours that differ; they
  name p' Omega p the manifold regularisation "for smoothness", which is the Laplacian's form. All pairs count.
- Rows of equal scores are one point, the limit of w_ij -> infinity: its target is the weighted mean of the labels. A
  point that stands for m rows has the weight m in the first sum and m_i m_j w_ij in the second, so that a row of weight
  2 is two rows.
- A row with one score equal and the others higher is ordered too, as a coordinate-wise nondecreasing map demands.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Never

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import check_is_fitted

from bayescal.calibrators.binary import BinaryCalibrator, Parameters, Support, group_neighbours
from bayescal.calibrators.scale import Scale, learn_unit, to_unit
from bayescal.priors import Priors
from bayescal.validation import NoPosteriorError, ParameterValueError, ScoreValueError, check_nonnegative

if TYPE_CHECKING:
    from scipy.spatial import Delaunay

MAX_COLUMNS = 5  # 1,000 rows have 2,000 simplices in 2 dimensions, 26,000 in 4, 120,000 in 5 and 570,000 in 6
MAX_NODES = 2048  # distinct rows of the program; its time grows with their cube
MIN_DISTANCE = 1e-9  # of rows that are not equal, in the similarities: 1e9 ties two values, more is beyond float64
FLATNESS = 1e-9  # spread of rows across a plane, relative to that along it, below which they lie in the plane
GAP = 1e-11  # duality gap at which the solver stops, absolute and relative
LARGEST_GAP = 1e-6  # beyond this the numbers of the program span too many orders of magnitude for float64


class MRMICCalibrator(BinaryCalibrator):
    """Manifold-regularised isotonic regression of several classifiers' scores: a point estimate.

    A benchmark from the literature, without a posterior. Its map is nondecreasing on the calibration rows, linear
    between them, and outside of their convex hull that of the nearest row.

    Parameters
    ----------
    score_kind : {"proba", "logit", "raw"}, default="proba"
        What the scores are: probabilities in [0, 1], log-odds, or any real number that grows with the probability.
    inference : {"point"}, default="point"
        There is a point estimate only.
    smoothing : float, default=None
        Weight lambda >= 0 of the penalty; 0 is isotonic regression. None takes 3 M / n^1.5 for M scores and n cases:
        the penalty is a sum over pairs of cases, and on six simulated surfaces (n = 60 to 1,000, M = 2 to 4) this rule
        was within 10 % of the best mean squared error on a grid. With the 1e-5 of the paper's figure (n = 400), which
        hardly smooths, the error was 1.4 to 2.3 times as large.
    classes : sequence of two labels, default=None
        Negative and positive class; None sorts the labels seen.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Negative and positive class.
    point_estimate_ : dict of ndarray
        ``nodes`` (m, M): the distinct calibration rows on [0, 1]; ``values`` (m,): their probabilities. More than
        2,048 distinct rows are first grouped with their neighbours.

    Raises
    ------
    ParameterValueError
        By ``fit``, if a setting is outside its domain, or if the program cannot be solved in float64.
    NoPosteriorError
        By whatever needs draws or a model.

    References
    ----------
    Zhong, L. W. and Kwok, J. T. (2013). Accurate probability calibration for multiple classifiers. IJCAI.
    Wang, Y. and Liu, X. (2020). Multivariate probability calibration with isotonic Bernstein polynomials. IJCAI. Eq. 6.

    Examples
    --------
    >>> import bayescal as bc
    >>> days = bc.datasets.load_rain_niamey()
    >>> cal = bc.MRMICCalibrator().fit(days[["ens", "logistic"]], days["rain"])
    >>> cal.predict_proba([[0.2, 0.3], [0.8, 0.7]])[:, 1].round(2)
    array([0.27, 0.55])
    """

    _name = "mrmic"
    _columns = "several"
    _inferences = ("point",)
    _priors_class = Priors
    priors: ClassVar[None] = None  # type: ignore[misc]  # there is no prior to set

    def __init__(
        self,
        score_kind: str = "proba",
        inference: str = "point",
        *,
        smoothing: float | None = None,
        classes: Any = None,
    ) -> None:
        self.score_kind = score_kind
        self.inference = inference
        self.smoothing = smoothing
        self.classes = classes

    def _learn_scale(self, scores: np.ndarray, weight: np.ndarray) -> Scale:
        if scores.shape[1] > MAX_COLUMNS:
            raise ScoreValueError(
                f"scores must have at most {MAX_COLUMNS} columns for mrmic, got {scores.shape[1]}: the triangulation "
                "that it interpolates on would not fit. Select columns, or take another calibrator of several scores."
            )
        return learn_unit(scores, weight, self.score_kind)

    def _coordinate(self, scores: np.ndarray, scale: Scale) -> np.ndarray:
        return to_unit(scores, scale, self.score_kind)

    def _features(self, u: np.ndarray, scale: Scale) -> np.ndarray:
        return u

    def _log_odds(self, features: np.ndarray, parameters: Parameters) -> np.ndarray:
        surfaces = zip(parameters["nodes"], parameters["values"], strict=True)
        p = np.stack([interpolate(nodes, values, features) for nodes, values in surfaces])
        return logit(np.clip(p, 0.0, 1.0))  # a weighted mean of ones can round to more than 1

    def _point(self, support: Support, scale: Scale) -> Parameters:
        if len(support.u) > MAX_NODES:
            support = group_neighbours(support, MAX_NODES)
        rule = 3 * support.u.shape[1] / support.totals.sum() ** 1.5
        smoothing = rule if self.smoothing is None else check_nonnegative(self.smoothing, "smoothing")
        values = regularised_isotonic(support.u, support.positives, support.totals, smoothing)
        return {"nodes": support.u, "values": values}

    def _model_data(self, support: Support, scale: Scale, priors: Priors) -> dict[str, np.ndarray]:
        return {}

    def _build(self, **data: np.ndarray) -> Never:
        raise _no_posterior("the PyMC model")

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Never:
        raise _no_posterior("the prior")

    def _require_posterior(self, what: str) -> None:
        check_is_fitted(self, "classes_")
        raise _no_posterior(what)


def _no_posterior(what: str) -> NoPosteriorError:
    return NoPosteriorError(
        f"{what} is not to be had: mrmic is a point estimate without a generative model. "
        "Take another calibrator of several scores, such as platt."
    )


def dominance(nodes: np.ndarray) -> np.ndarray:
    """Whether row i lies below row j, for distinct nodes ``(m, M)``: no score higher; bool ``(m, m)``."""
    below = np.logical_and.reduce([column[:, None] <= column for column in nodes.T])
    np.fill_diagonal(below, False)
    return below


def cover_pairs(below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The transitive reduction of a strict order ``(m, m)``: its pairs (lower, upper) with nothing between them."""
    paths = below.astype(np.float32)
    return np.nonzero(below & (paths @ paths == 0))


def laplacian(nodes: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Graph Laplacian ``(m, m)`` of the similarities 1 / distance of distinct nodes ``(m, M)`` with multiplicities."""
    from scipy.spatial.distance import cdist

    similarity = np.outer(totals, totals) / np.maximum(cdist(nodes, nodes), MIN_DISTANCE)
    np.fill_diagonal(similarity, 0.0)
    return np.diag(similarity.sum(axis=1)) - similarity


def regularised_isotonic(nodes: np.ndarray, positives: np.ndarray, totals: np.ndarray, smoothing: float) -> np.ndarray:
    """Values ``(m,)`` at distinct nodes ``(m, M)`` that solve the program, by Clarabel's interior-point method.

    `positives` and `totals` ``(m,)`` are weighted counts. Wang & Liu, Eq. 6.
    """
    import clarabel
    from scipy import sparse

    below = dominance(nodes)
    lower, upper = cover_pairs(below)
    edge, ones = np.arange(len(lower)), np.ones(len(lower))
    order = sparse.csc_array(
        (np.concatenate([ones, -ones]), (np.tile(edge, 2), np.concatenate([lower, upper]))),
        shape=(len(edge), len(nodes)),
    )
    unit = totals.mean()
    curvature = (2 * np.diag(totals) + smoothing * laplacian(nodes, totals)) / unit
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = "faer"  # blocked: the curvature is dense
    settings.max_threads = 1  # the same numbers on every machine
    settings.tol_gap_abs = settings.tol_gap_rel = GAP
    solver = clarabel.DefaultSolver(
        sparse.csc_array(np.triu(curvature)),
        -2 * positives / unit,
        order,
        np.zeros(len(edge)),
        [clarabel.NonnegativeConeT(len(edge))] if len(edge) else [],
        settings,
    )
    found = solver.solve()
    if not abs(found.obj_val - found.obj_val_dual) <= LARGEST_GAP * max(1.0, abs(found.obj_val)):
        raise ParameterValueError(
            f"the program of mrmic cannot be solved with smoothing={smoothing:g} and weights from {totals.min():g} to "
            f"{totals.max():g} ({found.status}): its numbers span too many orders of magnitude. Lower smoothing, or "
            "leave out rows of negligible weight."
        )
    values = np.clip(np.asarray(found.x), 0.0, 1.0)
    np.fill_diagonal(below, True)
    return np.where(below, values[:, None], 0.0).max(axis=0)  # the order exactly, not to the solver's tolerance


def interpolate(nodes: np.ndarray, values: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Values at u ``(k, M)``: linear over the nodes' triangulation, outside their hull that of the nearest node.

    Where the nodes lie in a plane of fewer dimensions, u is projected on it first.
    """
    import threadpoolctl
    from scipy.interpolate import LinearNDInterpolator
    from scipy.spatial import KDTree

    centre = nodes.mean(axis=0)
    spread, axes = np.linalg.svd(nodes - centre, full_matrices=False)[1:]
    kept = axes[spread > FLATNESS * max(1.0, spread[0])]
    if len(kept) < nodes.shape[1]:
        nodes, u = (nodes - centre) @ kept.T, (u - centre) @ kept.T
    if len(kept) == 0:
        return np.full(len(u), values[0])
    if len(kept) == 1:
        along = np.argsort(nodes[:, 0], kind="stable")
        return np.interp(u[:, 0], nodes[along, 0], values[along])
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):  # for thousands of systems of M equations
        found = LinearNDInterpolator(triangulate(nodes.tobytes(), len(kept)), values)(u)
    outside = np.isnan(found)
    found[outside] = values[KDTree(nodes).query(u[outside])[1]]
    return found


@lru_cache(maxsize=2)
def triangulate(nodes: bytes, columns: int) -> "Delaunay":
    """Delaunay triangulation of nodes ``(m, columns)``, kept: predicting asks for one block after the other."""
    from scipy.spatial import Delaunay

    return Delaunay(np.frombuffer(nodes).reshape(-1, columns))
