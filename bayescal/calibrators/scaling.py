"""Scaling of the scores of C classes: temperature, vector and bias-corrected scaling.

    q_k = exp(scale_k x_k + bias_k) / sum_j exp(scale_j x_j + bias_j),      x = log p,      k = 1 .. C
    scale_k = exp(scale_spread scale_raw_k) / temperature,      bias_k = bias_spread bias_raw_k

    temperature scaling                   scale_k = 1 / temperature      bias_k = 0
    no-bias vector scaling                scale_k free                   bias_k = 0
    bias-corrected temperature scaling    scale_k = 1 / temperature      bias_k free
    vector scaling                        scale_k free                   bias_k free

p is the row of probabilities, kept at 1e-12 or more, or the softmax of the row of logits. Temperature 1 without biases
leaves it as it is. The spreads are learned: vector scaling shrinks towards bias-corrected scaling, and that towards
temperature scaling. The point estimate is maximum likelihood with scale_k >= 0; where the classes are separated, or
one is without cases, Platt's targets take the place of the labels (`softmax.py`).

For C = 2 the log-odds of the second class are (bias_2 - bias_1) + scale_2 log p_2 - scale_1 log p_1: Platt's map if the
scales are one, the beta map if they are two.

Alexandari, Kundaje & Shrikumar (2020), "Maximum likelihood with bias-corrected calibration is hard-to-beat at label
shift adaptation", section on calibration; Guo et al. (2017), "On calibration of modern neural networks", section 4.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bayescal.calibrators.generative import Parameters
from bayescal.calibrators.multiclass import MultiClassCalibrator
from bayescal.calibrators.scale import Scale
from bayescal.calibrators.softmax import Support, fit_scaling, scaled_logits
from bayescal.calibrators.spreads import draw_bias_spread, draw_scale_spread
from bayescal.priors import Priors, setting

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class TemperaturePriors(Priors):
    """Prior settings of `TemperatureScaling`: temperature ~ LogNormal.

    Parameters
    ----------
    temperature_log_mean : float, default=0.0
        Mean of the log of the temperature.
    temperature_log_sd : float, default=0.7
        Standard deviation of the log of the temperature; positive.

    Examples
    --------
    >>> TemperaturePriors().temperature_log_sd
    0.7
    """

    temperature_log_mean: float = setting(0.0, "log; temperature 1, neither over- nor under-confident")
    temperature_log_sd: float = setting(0.7, "log; temperatures of 0.5 and 2 are one sd", positive=True)


@dataclass(frozen=True)
class NoBiasVectorPriors(TemperaturePriors):
    """Prior settings of `NoBiasVectorScaling`: those of the temperature, and scale_spread ~ HalfNormal.

    Parameters
    ----------
    temperature_log_mean : float, default=0.0
        Mean of the log of the temperature.
    temperature_log_sd : float, default=0.7
        Standard deviation of the log of the temperature; positive.
    scale_spread_sd : float, default=0.5
        Scale of the half-normal prior of the spread of the classes' log scales; positive.

    Examples
    --------
    >>> NoBiasVectorPriors(scale_spread_sd=0.2).scale_spread_sd
    0.2
    """

    scale_spread_sd: float = setting(0.5, "log; scales of the classes a factor 1.6 apart are common", positive=True)


@dataclass(frozen=True)
class BiasCorrectedTemperaturePriors(TemperaturePriors):
    """Prior settings of `BiasCorrectedTemperatureScaling`: those of the temperature, and bias_spread ~ HalfNormal.

    Parameters
    ----------
    temperature_log_mean : float, default=0.0
        Mean of the log of the temperature.
    temperature_log_sd : float, default=0.7
        Standard deviation of the log of the temperature; positive.
    bias_spread_sd : float, default=1.0
        Scale of the half-normal prior of the spread of the classes' biases, in log-odds; positive.

    Examples
    --------
    >>> BiasCorrectedTemperaturePriors().bias_spread_sd
    1.0
    """

    bias_spread_sd: float = setting(1.0, "log-odds; class shares that are off by a factor e are common", positive=True)


@dataclass(frozen=True)
class VectorPriors(NoBiasVectorPriors):
    """Prior settings of `VectorScaling`: those of the temperature, scale_spread and bias_spread ~ HalfNormal.

    Parameters
    ----------
    temperature_log_mean : float, default=0.0
        Mean of the log of the temperature.
    temperature_log_sd : float, default=0.7
        Standard deviation of the log of the temperature; positive.
    scale_spread_sd : float, default=0.5
        Scale of the half-normal prior of the spread of the classes' log scales; positive.
    bias_spread_sd : float, default=1.0
        Scale of the half-normal prior of the spread of the classes' biases, in log-odds; positive.

    Examples
    --------
    >>> VectorPriors().describe()[2][:2]
    ('scale_spread_sd', 0.5)
    """

    bias_spread_sd: float = setting(1.0, "log-odds; class shares that are off by a factor e are common", positive=True)


class _Scaling(MultiClassCalibrator):
    """The model, of which the public classes are members."""

    _adaptation = "low_rank"
    _auxiliary = ("scale_raw", "bias_raw")
    _vector: ClassVar[bool] = False  # has a scale for each class
    _biased: ClassVar[bool] = False  # has a bias for each class

    def _logits(self, x: np.ndarray, parameters: Parameters) -> np.ndarray:
        scale = parameters["scale"] if self._vector else 1 / parameters["temperature"][:, None]
        return scaled_logits(x, scale, parameters["bias"] if self._biased else None)

    def _build(self, **data: np.ndarray) -> "pm.Model":
        import pymc as pm
        import pytensor.tensor as pt

        from bayescal.inference.likelihood import counts_given_scaling

        rows, classes = data["x"].shape
        with pm.Model(coords={"score": np.arange(rows), "class": np.arange(classes)}) as model:
            x = pm.Data("x", data["x"], dims=("score", "class"))
            counts = pm.Data("counts", data["counts"], dims=("score", "class"))
            totals = pm.Data("totals", data["totals"], dims="score")
            prior = pm.Data("prior", data["prior"])
            scale = pt.ones(classes) / pm.LogNormal("temperature", prior[0], prior[1])
            if self._vector:
                scale_spread = pm.HalfNormal("scale_spread", prior[2])
                scale = scale * pm.math.exp(scale_spread * pm.Normal("scale_raw", dims="class"))
            bias = pt.zeros(classes)
            if self._biased:
                bias_spread = pm.HalfNormal("bias_spread", prior[-1])
                bias = bias_spread * pm.Normal("bias_raw", dims="class")
            counts_given_scaling(x, scale, bias, counts, totals)
        return model

    def _point(self, support: Support, scale: Scale) -> Parameters:
        scales, bias, finite = fit_scaling(support, vector=self._vector, biased=self._biased)
        with np.errstate(divide="ignore"):  # logits that say nothing have the scale 0
            found = {"scale": scales} if self._vector else {"temperature": np.array(1 / scales[0])}
        return {**found, **({"bias": bias} if self._biased else {}), "smoothed": np.array(int(not finite))}

    def _prior_draws(self, rng: np.random.Generator, size: int, priors: Priors, scale: Scale) -> Parameters:
        settings, classes = priors.vector(), int(scale["classes"])
        drawn = {"temperature": rng.lognormal(settings[0], settings[1], size)}
        if self._vector:
            drawn["scale_spread"] = np.abs(rng.normal(0, settings[2], size))
            drawn["scale_raw"] = rng.normal(size=(size, classes))
        if self._biased:
            drawn["bias_spread"] = np.abs(rng.normal(0, settings[-1], size))
            drawn["bias_raw"] = rng.normal(size=(size, classes))
        return self._with_scale_and_bias(drawn)

    def _redraw(self, priors: Priors) -> Callable[[Parameters, np.random.Generator], Parameters] | None:
        settings = priors.vector()

        def redraw(draws: Parameters, rng: np.random.Generator) -> Parameters:
            found, shape = dict(draws), draws["temperature"].shape
            if self._vector:
                log_scale = np.log(self._with_scale_and_bias(draws)["scale"])
                flat = log_scale.reshape(-1, log_scale.shape[-1])
                spread, t = draw_scale_spread(flat, -settings[0], settings[1], settings[2], rng)
                found["scale_spread"], found["temperature"] = spread.reshape(shape), np.exp(-t).reshape(shape)
                found["scale_raw"] = ((flat - t[:, None]) / spread[:, None]).reshape(log_scale.shape)
            if self._biased:
                bias = self._with_scale_and_bias(draws)["bias"]
                spread = draw_bias_spread(bias.reshape(-1, bias.shape[-1]), settings[-1], rng).reshape(shape)
                found["bias_spread"], found["bias_raw"] = spread, bias / spread[..., None]
            return found

        return redraw if self._vector or self._biased else None

    def _complete(
        self, posterior: Parameters, support: Support, scale: Scale, priors: Priors, rng: np.random.Generator
    ) -> Parameters:
        return self._with_scale_and_bias(posterior)

    def _with_scale_and_bias(self, drawn: Parameters) -> Parameters:
        """Draws of the sampled variables, with the scales and biases that they stand for."""
        found = dict(drawn)
        if self._vector:
            log_scale = drawn["scale_spread"][..., None] * drawn["scale_raw"]
            found["scale"] = np.exp(log_scale) / drawn["temperature"][..., None]
        if self._biased:
            found["bias"] = drawn["bias_spread"][..., None] * drawn["bias_raw"]
        return found


class TemperatureScaling(_Scaling):
    """Temperature scaling: one temperature for all classes.

    It makes all probabilities surer or less sure, and never changes which class is the most probable.

    Parameters
    ----------
    score_kind : {"proba", "logit"}, default="proba"
        What the scores are: rows of probabilities that sum to 1, or logits up to a constant of each row.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or maximum likelihood.
    draws : int, default=1000
        Posterior draws of each chain.
    tune : int, default=None
        Warm-up steps of each chain; None takes the calibrator's own number.
    chains : int, default=4
        Number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the fit reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total, divergences) from a thread of its own.
    priors : TemperaturePriors or dict, default=None
        Prior settings; None takes the defaults.
    classes : sequence of labels, default=None
        Labels in the order of the columns. None takes the names of a table's columns if they are labels, else the
        sorted labels seen; with more columns than labels, whole numbers from 0 are column numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    idata_ : xarray.DataTree
        Posterior and all that belongs to it.

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern neural networks.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 8
    >>> y = (["ape", "bee", "cow"] * 2 + ["ape", "cow", "cow", "bee", "bee", "cow"]) * 2
    >>> cal = bc.TemperatureScaling(inference="point").fit(p, y)
    >>> cal.predict_proba([[0.8, 0.1, 0.1]]).round(2)
    array([[0.83, 0.08, 0.08]])
    """

    _name = "temperature"
    _priors_class = TemperaturePriors


class NoBiasVectorScaling(_Scaling):
    """Vector scaling without biases: a scale for each class, which shrinks towards a common temperature.

    It is of use beside the others; where classes are too common or too rare it has no bias to say so.

    Parameters
    ----------
    score_kind : {"proba", "logit"}, default="proba"
        What the scores are: rows of probabilities that sum to 1, or logits up to a constant of each row.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or maximum likelihood.
    draws : int, default=1000
        Posterior draws of each chain.
    tune : int, default=None
        Warm-up steps of each chain; None takes the calibrator's own number.
    chains : int, default=4
        Number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the fit reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total, divergences) from a thread of its own.
    priors : NoBiasVectorPriors or dict, default=None
        Prior settings; None takes the defaults.
    classes : sequence of labels, default=None
        Labels in the order of the columns. None takes the names of a table's columns if they are labels, else the
        sorted labels seen; with more columns than labels, whole numbers from 0 are column numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    idata_ : xarray.DataTree
        Posterior and all that belongs to it.

    References
    ----------
    Alexandari, A., Kundaje, A. and Shrikumar, A. (2020). Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 8
    >>> y = (["ape", "bee", "cow"] * 2 + ["ape", "cow", "cow", "bee", "bee", "cow"]) * 2
    >>> cal = bc.NoBiasVectorScaling(inference="point").fit(p, y)
    >>> cal.predict_proba([[0.8, 0.1, 0.1]]).round(2)
    array([[0.72, 0.13, 0.14]])
    """

    _name = "no-bias-vector"
    _priors_class = NoBiasVectorPriors
    _vector = True


class BiasCorrectedTemperatureScaling(_Scaling):
    """Bias-corrected temperature scaling: one temperature, and a bias for each class that shrinks towards none.

    The one to begin with: biases mend classes that the classifier gives too often. For two classes it is Platt's map.

    Parameters
    ----------
    score_kind : {"proba", "logit"}, default="proba"
        What the scores are: rows of probabilities that sum to 1, or logits up to a constant of each row.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or maximum likelihood.
    draws : int, default=1000
        Posterior draws of each chain.
    tune : int, default=None
        Warm-up steps of each chain; None takes the calibrator's own number.
    chains : int, default=4
        Number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the fit reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total, divergences) from a thread of its own.
    priors : BiasCorrectedTemperaturePriors or dict, default=None
        Prior settings; None takes the defaults.
    classes : sequence of labels, default=None
        Labels in the order of the columns. None takes the names of a table's columns if they are labels, else the
        sorted labels seen; with more columns than labels, whole numbers from 0 are column numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    idata_ : xarray.DataTree
        Posterior and all that belongs to it.

    References
    ----------
    Alexandari, A., Kundaje, A. and Shrikumar, A. (2020). Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 8
    >>> y = (["ape", "bee", "cow"] * 2 + ["ape", "cow", "cow", "bee", "bee", "cow"]) * 2
    >>> cal = bc.BiasCorrectedTemperatureScaling(inference="point").fit(p, y)
    >>> cal.predict_proba([[0.8, 0.1, 0.1]]).round(2)
    array([[0.7 , 0.11, 0.19]])
    """

    _name = "bias-corrected-temperature"
    _priors_class = BiasCorrectedTemperaturePriors
    _biased = True


class VectorScaling(_Scaling):
    """Vector scaling: a scale and a bias for each class, which shrink towards a temperature and no bias.

    Worth its parameters from some hundred cases on. For two classes it is beta calibration.

    Parameters
    ----------
    score_kind : {"proba", "logit"}, default="proba"
        What the scores are: rows of probabilities that sum to 1, or logits up to a constant of each row.
    inference : {"nuts", "point"}, default="nuts"
        Posterior by NUTS, or maximum likelihood.
    draws : int, default=1000
        Posterior draws of each chain.
    tune : int, default=None
        Warm-up steps of each chain; None takes the calibrator's own number.
    chains : int, default=4
        Number of chains.
    cores : int, default=None
        Chains that run at a time; None takes what the machine has. The draws do not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an integer makes the fit reproducible.
    progressbar : bool or callable, default=None
        None shows a bar on a terminal; a callable receives (done, total, divergences) from a thread of its own.
    priors : VectorPriors or dict, default=None
        Prior settings; None takes the defaults.
    classes : sequence of labels, default=None
        Labels in the order of the columns. None takes the names of a table's columns if they are labels, else the
        sorted labels seen; with more columns than labels, whole numbers from 0 are column numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    idata_ : xarray.DataTree
        Posterior and all that belongs to it.

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern neural networks.

    Examples
    --------
    >>> import bayescal as bc
    >>> p = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]] * 8
    >>> y = (["ape", "bee", "cow"] * 2 + ["ape", "cow", "cow", "bee", "bee", "cow"]) * 2
    >>> cal = bc.VectorScaling(inference="point").fit(p, y)
    >>> cal.predict_proba([[0.8, 0.1, 0.1]]).round(2)
    array([[0.75, 0.2 , 0.05]])
    """

    _name = "vector"
    _priors_class = VectorPriors
    _vector = True
    _biased = True
