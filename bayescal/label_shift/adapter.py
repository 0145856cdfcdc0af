"""Adapt calibrated probabilities to another place, where classes are differently frequent and labels are missing.

    q_i(x)  =  w_i p_i(x) / sum_j w_j p_j(x),      w_i = q_i / p_i

with p_i(x) the calibrated probabilities in the source, p the proportions of the classes there and q those of the target
(Alexandari, Kundaje & Shrikumar 2020, Eq. 8). `proportions` and `confusion` estimate q and w, `draws` and
`confusion_posterior` draw them, and `adapted` answers what is asked afterwards.
"""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from bayescal.inference.seeds import seed_sequence
from bayescal.label_shift.adapted import Adapted
from bayescal.label_shift.calibrated import Calibrated, choose_draws, has_draws, proba_at
from bayescal.label_shift.confusion import Confusion, bbse, joint, predicted, rlls
from bayescal.label_shift.confusion_posterior import CHAINS, confusion_counts, sample_confusion
from bayescal.label_shift.draws import (
    GROUP_ERROR,
    MANY,
    draw_source,
    draw_target,
    group_two,
    score_log_odds,
)
from bayescal.label_shift.notes import (
    ACCEPTED_MIN,
    BAYES,
    CONFUSION,
    METHODS,
    refuse,
    warn_about_left_out,
    warn_about_mixing,
)
from bayescal.label_shift.proportions import KKT_TOLERANCE, evidence, maximum_likelihood
from bayescal.label_shift.settings import CONCENTRATION, class_numbers, label_counts, read_prior
from bayescal.validation import ConvergenceWarning, ParameterValueError, check_choice, check_count

SOURCES = ("bootstrap", "labels")
JUDGED = 50  # draws of each chain of the confusion posterior that its mixing is judged by, at least
TRIED = 200  # cases whose groups are checked
TINY = 1e-300


class LabelShiftAdapter(Adapted):
    """Class proportions of a place without labels, and probabilities adapted to them.

    The label shift assumption: the cases of each class look alike in source and target, only how many there are of each
    class differs.

    Parameters
    ----------
    calibrator : calibrator, default=None
        Any calibrator of this package; `fit` fits a clone to the source cases. One that is fitted already is used as it
        is inside scikit-learn's ``FrozenEstimator``. None takes the scores as calibrated probabilities, one column for
        each class.
    method : str, default="bayes"
        How the target's proportions are found:

        - ``"bayes"``: posterior, with the uncertainty of the calibrator, of the source proportions and of the target;
        - ``"em"``: maximum likelihood, the fixed point of EM, with mean calibrated probabilities as source proportions;
        - ``"bbse-hard"``, ``"bbse-soft"``: black-box shift estimation, by inverting the confusion matrix;
        - ``"rlls-hard"``, ``"rlls-soft"``: the same, shrunk towards no shift;
        - ``"bayes-confusion"``: posterior from confusion counts alone. Wider, and right without calibration.
    prior : float or array-like of shape (C,), default=None
        Concentration of the Dirichlet prior on the target's proportions, for the two Bayesian methods; None is 0.5 for
        each class. Numbers that sum to 1, one for each class in the order of ``classes_``, are known proportions
        instead, with any method.
    source : {"bootstrap", "labels"}, default="bootstrap"
        How ``"bayes"`` draws the source proportions: as bootstrap means of the calibrated probabilities, or, more
        conservatively, from the labels, Dirichlet(counts + 1). See Notes.
    draws : int, default=1000
        Posterior draws, about.
    random_state : int, Generator, RandomState or None, default=None
        Seed of all draws. A calibrator without a ``random_state`` of its own is seeded from it too.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Labels, in the order of the columns of every result.
    calibrator_ : calibrator
        Fitted to the source cases.
    target_prior_, source_prior_, weights_ : xarray.DataArray over class
        Proportions of the classes in target and source, posterior means where there is a posterior, and weights: how
        many times as frequent a class is in the target. The Bayesian weights are exp(E log q) over the mean of
        Dirichlet(counts + 1), the counts being those of the source labels. See Notes.

    See Also
    --------
    plot_priors : Draw the proportions of source and target with their intervals.

    Notes
    -----
    The 90 % intervals of ``method="bayes"`` were measured on data that no choice was made on; coverage and width are in
    ``tests/studies/results/label_shift_coverage.txt``. ``source="labels"`` counts the labels of the source cases twice,
    in the calibrator and in the proportions. Its intervals are wider, and cover more than they say in most settings.

    The weights' denominators are label shares, since calibrated probabilities are shrunk by the calibrator's prior, and
    scatter where a class is rare. Of eleven point estimates these were chosen on synthetic data, digits and retinopathy
    scores, on other draws than the results of ``tests/studies``. Draws of the weights, and their intervals, are ratios
    of draws of the proportions.

    References
    ----------
    .. [1] Alexandari, A., Kundaje, A. and Shrikumar, A. (2020). Maximum likelihood with bias-corrected calibration is
       hard-to-beat at label shift adaptation. ICML.
    .. [2] Saerens, M., Latinne, P. and Decaestecker, C. (2002). Adjusting the outputs of a classifier to new a priori
       probabilities. Neural Computation 14.
    .. [3] Lipton, Z., Wang, Y.-X. and Smola, A. (2018). Detecting and correcting for label shift with black box
       predictors. ICML.
    .. [4] Azizzadenesheli, K., Liu, A., Yang, F. and Anandkumar, A. (2019). Regularized learning for domain adaptation
       under label shifts. ICLR.

    Examples
    --------
    >>> import numpy as np, bayescal as bc
    >>> proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    >>> ad = bc.LabelShiftAdapter(method="em").fit(proba, [0, 0, 1, 1])
    >>> ad.adapt(proba[[0, 1, 0, 3]]).target_prior_.values.round(2)
    array([0.8, 0.2])
    """

    def __init__(
        self,
        calibrator: Any = None,
        method: str = "bayes",
        prior: Any = None,
        *,
        source: str = "bootstrap",
        draws: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.calibrator = calibrator
        self.method = method
        self.prior = prior
        self.source = source
        self.draws = draws
        self.random_state = random_state

    # fit and adapt --------------------------------------------------------------------------------------------------

    def fit(self, scores: Any, y: Any) -> Self:
        """Fit the calibrator to labelled cases of the source.

        Parameters
        ----------
        scores : array-like of shape (n, C), or as the calibrator reads them
            Scores of the source cases, held out from the training of the classifier.
        y : array-like of shape (n,)
            Their labels.

        Returns
        -------
        self
            Fitted; call `adapt` next.

        Raises
        ------
        ScoreValueError, LabelValueError, ParameterValueError
            If an input or a setting is outside its domain; if bbse or rlls is asked for and a class has no source case.

        Warns
        -----
        CalibrationWarning
            If the calibrator warns, or a class has no source case.
        """
        check_choice(self.method, METHODS, "method")
        check_choice(self.source, SOURCES, "source")
        check_count(self.draws, "draws")
        entropy = seed_sequence(self.random_state).generate_state(3, np.uint64)
        calibrator = Calibrated() if self.calibrator is None else clone(self.calibrator)
        if calibrator.get_params(deep=False).get("random_state", 0) is None:
            calibrator.set_params(random_state=int(entropy[0] >> 33))
        calibrator.fit(scores, y)
        if isinstance(calibrator, FrozenEstimator):
            calibrator = calibrator.estimator
        classes = np.asarray(calibrator.classes_)
        prior = read_prior(self.prior, classes)
        proba = np.asarray(calibrator.predict_proba(scores), dtype=float)
        numbers = class_numbers(y, len(proba), classes, "y")
        counts = np.bincount(numbers, minlength=len(classes)).astype(float)
        refuse(self.method, calibrator, prior, self.prior, counts, classes)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.calibrator_ = calibrator
        self.classes_ = classes
        self._prior, self._entropy = prior, [int(word) for word in entropy[1:]]
        self._mean, self._counts, self._confusion = proba.mean(axis=0), counts, None
        if self.method in CONFUSION:
            self._confusion = joint(proba, numbers, hard=self.method.endswith("hard"))
        elif self.method == "bayes-confusion":
            self._confusion = confusion_counts(proba, numbers)
        self._chosen = None
        if self.method in BAYES and has_draws(calibrator):
            self._chosen, self._draw_shape = choose_draws(calibrator, self.draws)
        if self.method == "bayes":
            self._source = self._draw_source(calibrator._check_new_scores(scores).values)
        return self

    def adapt(self, scores: Any = None, *, labelled: Any = None) -> Self:
        """Find the proportions of the classes in the target.

        Parameters
        ----------
        scores : array-like of shape (N, C), or as the calibrator reads them, default=None
            Scores of the target cases, whose labels are not known. None if the target's proportions are known.
        labelled : array-like of labels, default=None
            Labels of further target cases, drawn at random; not of those in `scores`. What they say of the proportions
            is in the labels, and their scores are not needed. For ``"em"`` and the two Bayesian methods.

        Returns
        -------
        self
            With ``target_prior_``, ``source_prior_``, ``weights_``.

        Raises
        ------
        ScoreValueError, LabelValueError, ParameterValueError
            If an input is outside its domain, or the method has no use for it.

        Warns
        -----
        CalibrationWarning
            If weights are not identified or were negative, or cases had to be ignored.
        ConvergenceWarning
            If the sampler of the proportions did not do its work.
        """
        check_is_fitted(self, "classes_")
        counts = label_counts(labelled, self.classes_)
        if counts.any() and (self.method in CONFUSION or self._prior.known is not None):
            raise ParameterValueError(
                "labelled is for methods 'em', 'bayes' and 'bayes-confusion' without known proportions; this one has "
                f"method={self.method!r} and prior={self.prior!r}. Leave labelled out."
            )
        values = None
        if scores is not None:
            values = self.calibrator_._check_new_scores(scores).values
            values = None if not len(values) else values
        if values is None and self._prior.known is None and not counts.any():
            raise ParameterValueError(
                "adapt needs scores of target cases, at least one. Without any, pass known proportions as prior."
            )
        rng = np.random.default_rng([*self._entropy, 1])
        draws: tuple[np.ndarray, np.ndarray] | None = None
        point = np.ones(len(self.classes_))
        if self.method in BAYES:
            draws = self._draw(values, counts, rng)
        else:
            point = self._estimate(scores, values, counts)
        for name in ("target_prior_", "source_prior_", "weights_", "idata_"):
            self.__dict__.pop(name, None)
        self._n_target = 0 if values is None else len(values)
        self._p, self._q = (None, None) if draws is None else draws
        self._w = self._weight_draws()
        if draws is None:
            source = self._mean_source()
            target = self._prior.known if self._prior.known is not None else point * source
            weights = point
        else:
            source, target = self._p.mean(axis=0), self._q.mean(axis=0)
            weights = np.exp(np.log(np.maximum(self._q, TINY)).mean(axis=0)) * (self._q > 0).any(axis=0)
            weights /= (self._counts + 1) / (self._counts + 1).sum()
        self._keep(target / target.sum(), source, weights)
        return self

    # the methods ----------------------------------------------------------------------------------------------------

    def _mean_source(self) -> np.ndarray:
        """Source proportions of a point method: mean calibrated probabilities (Lemma A), or label shares."""
        return self._counts / self._counts.sum() if self.method in CONFUSION else self._mean

    def _estimate(self, scores: Any, values: np.ndarray | None, labelled: np.ndarray) -> np.ndarray:
        """Class weights of a point method."""
        source = self._mean_source()
        if self._prior.known is not None:
            return np.divide(self._prior.known, source, out=np.zeros_like(source), where=source > 0)
        target = np.empty((0, len(source))) if values is None else np.asarray(self.calibrator_.predict_proba(scores))
        if self.method in CONFUSION:
            shares = predicted(target, hard=self.method.endswith("hard"))
            both = Confusion(self._confusion, shares, int(self._counts.sum()))
            return bbse(both) if self.method.startswith("bbse") else rlls(both)
        given = evidence(target, source, labelled)
        warn_about_left_out(given.kept, self.classes_, given.ignored)
        found = maximum_likelihood(given)
        if found.residual > KKT_TOLERANCE:
            warnings.warn(
                f"maximum likelihood stopped at a residual of {found.residual:.1g} of its first-order conditions "
                f"(limit {KKT_TOLERANCE:g}): the proportions are known to about that much.",
                ConvergenceWarning,
                stacklevel=3,
            )
        q = given.spread(found.q)
        return np.divide(q, source, out=np.zeros_like(q), where=source > 0)

    def _draw_source(self, values: np.ndarray) -> np.ndarray:
        """Draws of the source proportions ``(S, C)``."""
        rng = np.random.default_rng([*self._entropy, 0])
        if self.source == "labels":
            return rng.dirichlet(self._counts + 1.0, size=self._chosen.size)
        return draw_source(
            lambda rows: proba_at(self.calibrator_, values[rows], self._chosen), len(values), self._chosen.size, rng
        )

    def _draw(
        self, values: np.ndarray | None, labelled: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the proportions of source and target, ``(S, C)``."""
        known = self._prior.known
        shape = labelled + (0.0 if self._prior.concentration is None else self._prior.concentration)
        if self.method == "bayes":
            p = self._source
            if known is None:
                if values is None:
                    return p, rng.dirichlet(shape, size=len(p))
                return p, self._given_target(values, shape, rng)
        else:
            each = -(-self.draws // CHAINS)
            self._draw_shape = CHAINS, each
            target = np.zeros(len(self.classes_), dtype=int)
            if values is not None and known is None:
                predicted = np.asarray(self.calibrator_.predict_proba(values)).argmax(axis=1)
                target = np.bincount(predicted, minlength=len(self.classes_))
            prior = np.full(len(shape), CONCENTRATION) if known is not None else self._prior.concentration
            assert prior is not None
            length = max(each, JUDGED)
            p, q = sample_confusion(self._confusion, target, prior, labelled, length, rng)
            if known is None:
                warn_about_mixing(q)
            few = np.linspace(0, length - 1, each).round().astype(int)
            p, q = (draws[:, few].reshape(CHAINS * each, -1) for draws in (p, q))
            if known is None:
                return p, q
        return p, np.broadcast_to(known, p.shape)

    def _given_target(self, values: np.ndarray, shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws of the target proportions given cases, by the cut posterior."""
        rows, weight = values, np.ones(len(values))
        if len(self.classes_) == 2 and len(values) > MANY:
            rows, weight = self._grouped(values)
        found = draw_target(
            lambda draws: proba_at(self.calibrator_, rows, self._chosen[draws]), weight, self._source, shape, rng
        )
        warn_about_left_out((self._source > 0).all(axis=0), self.classes_, found.ignored)
        if not found.accepted.mean() >= ACCEPTED_MIN:
            warnings.warn(
                f"the sampler of the target proportions accepted {found.accepted.mean():.0%} of its transitions "
                f"(at least {ACCEPTED_MIN:.0%}). Give a less extreme prior, or compare with method='em'.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found.q

    def _grouped(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One case for each group of cases of two classes that have nearly the same log-odds, and their numbers.

        The calibrator may look at more of a case than its log-odds: cases whose probabilities are not those of their
        group in some draw are counted one by one.
        """
        log_odds = score_log_odds(values, getattr(self.calibrator_, "score_kind", "proba"))
        if log_odds is None:
            return values, np.ones(len(values))
        group, weight, nearest = group_two(log_odds)
        tried = np.linspace(0, len(values) - 1, TRIED).astype(int)
        few = self._chosen[:: max(1, len(self._chosen) // 8)]
        p, theirs = (proba_at(self.calibrator_, values[at], few) for at in (tried, nearest[group[tried]]))
        with np.errstate(divide="ignore"):
            apart = np.abs(np.log(p[..., 1] / p[..., 0]) - np.log(theirs[..., 1] / theirs[..., 0]))
        if not np.nanmax(apart) <= GROUP_ERROR:
            return values, np.ones(len(values))
        return values[nearest], weight
