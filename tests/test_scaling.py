"""Scaling of several classes: closed forms, limits, and the binary calibrators that it is for two classes."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax

import bayescal as bc
from bayescal.calibrators.beta import beta_maximum_likelihood
from bayescal.calibrators.logistic import fit_logistic
from bayescal.calibrators.multiclass import log_probabilities
from bayescal.calibrators.softmax import Support, fit_scaling, scaled_logits, smoothed_counts

ALL = [bc.TemperatureScaling, bc.NoBiasVectorScaling, bc.BiasCorrectedTemperatureScaling, bc.VectorScaling]
BIASED = [bc.BiasCorrectedTemperatureScaling, bc.VectorScaling]
ids = {"ids": lambda cls: cls._name}


def simulate(seed: int, n: int = 200, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Logits of twice the size that they should have, and labels."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, classes))
    truth = softmax(0.5 * logits + np.linspace(-0.5, 0.5, classes), axis=1)
    return logits, (np.cumsum(truth, axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1)


def point(cls: type, scores: Any, y: Any, *, score_kind: str = "logit", **how: Any) -> Any:
    return cls(score_kind=score_kind, inference="point").fit(scores, y, **how)


# The map


@pytest.mark.parametrize("cls", ALL, **ids)
def test_temperature_one_is_the_identity(cls: type, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    p = rng.dirichlet(np.ones(4), 20)
    parameters = {"temperature": np.ones(1), "scale": np.ones((1, 4)), "bias": np.zeros((1, 4))}
    q = softmax(cls()._logits(log_probabilities(p, "proba"), parameters), axis=-1)
    np.testing.assert_allclose(q[0], p, rtol=1e-12)


def test_calibrated_levels_are_a_fixed_point() -> None:
    # each row of p occurs 10 times with 10 p_k cases of class k: the score equations hold row by row at the identity
    p = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2], [0.4, 0.4, 0.2]])
    counts = np.round(10 * p).astype(int)
    scores, y = np.repeat(p, 10, axis=0), np.concatenate([np.repeat([0, 1, 2], row) for row in counts])
    for cls in ALL:
        cal = point(cls, scores, y, score_kind="proba")
        np.testing.assert_allclose(cal.predict_proba(p), p, rtol=0, atol=1e-8)
        found = cal.point_estimate_
        np.testing.assert_allclose(found.get("temperature", 1.0), 1.0, rtol=1e-7)
        np.testing.assert_allclose(found.get("scale", 1.0), 1.0, rtol=1e-7)
        np.testing.assert_allclose(found.get("bias", 0.0), 0.0, atol=1e-7)


def test_kinds_of_scores_say_the_same(random_seed: int) -> None:
    logits, y = simulate(random_seed)
    shift = np.random.default_rng(random_seed).normal(0, 10, (len(y), 1))
    for cls in ALL:
        expected = point(cls, logits, y)
        for kind, scores in (
            ("logit", logits + shift),
            ("logit", log_softmax(logits, axis=1)),
            ("proba", softmax(logits, axis=1)),
        ):
            cal = point(cls, scores, y, score_kind=kind)
            np.testing.assert_allclose(cal.predict_proba(scores), expected.predict_proba(logits), rtol=0, atol=1e-7)


def test_logits_in_float32_are_read(random_seed: int) -> None:
    logits, y = simulate(random_seed)
    coarse = logits.astype(np.float32)
    proba = point(bc.VectorScaling, coarse, y).predict_proba(coarse)
    assert proba.dtype == np.float64
    np.testing.assert_allclose(proba, point(bc.VectorScaling, logits, y).predict_proba(logits), atol=1e-4)
    rows = softmax(coarse, axis=1)  # sums are off by some 1e-7
    point(bc.VectorScaling, rows, y, score_kind="proba").predict_proba(rows)


# Maximum likelihood


def test_case_46_temperature_of_three_right_in_four() -> None:
    logits = np.array([[2.0, 0], [2, 0], [0, 2], [0, 2]])
    with pytest.warns(bc.CalibrationWarning, match="fewer than 5 cases"):
        cal = point(bc.TemperatureScaling, logits, [0, 0, 0, 1])
    # derived: expit(2 / T) = 3/4
    assert cal.point_estimate_["temperature"] == pytest.approx(2 / np.log(3), rel=1e-8)
    np.testing.assert_allclose(cal.predict_proba(logits).max(axis=1), 0.75, rtol=1e-8)


def test_case_47_temperature_of_forty_rows() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(40, 3)) * 4
    y = np.array([rng.choice(3, p=softmax(row / 2.5)) for row in logits])
    # 3.10024 by an independent optimiser, from logits and from log(softmax(logits)) alike
    for kind, scores in (("logit", logits), ("logit", log_softmax(logits, axis=1)), ("proba", softmax(logits, axis=1))):
        cal = point(bc.TemperatureScaling, scores, y, score_kind=kind)
        assert cal.point_estimate_["temperature"] == pytest.approx(3.10024, abs=5e-6)


@pytest.mark.parametrize("cls", ALL, **ids)
def test_optimum_is_that_of_another_optimiser(cls: type, random_seed: int) -> None:
    logits, y = simulate(random_seed, classes=4)
    x = log_softmax(logits, axis=1)
    scales, biases = (4 if cls._vector else 1), (3 if cls._biased else 0)

    def loss(theta: np.ndarray) -> float:
        eta = x * theta[:scales] + np.r_[0.0, theta[scales:], np.zeros(3 - biases)]
        return -log_softmax(eta, axis=1)[np.arange(len(y)), y].mean()

    start = np.r_[np.ones(scales), np.zeros(biases)]
    bounds = [(0, None)] * scales + [(None, None)] * biases
    other = minimize(loss, start, method="SLSQP", bounds=bounds, options={"ftol": 1e-14, "maxiter": 1000})
    cal = point(cls, logits, y)
    mine = -np.log(cal.predict_proba(logits)[np.arange(len(y)), y]).mean()
    assert mine <= other.fun + 1e-12  # never above it; and SLSQP stops within 1e-9 of the minimum
    assert mine == pytest.approx(other.fun, abs=1e-9)
    assert cal.point_estimate_["smoothed"] == 0


def test_richer_families_fit_no_worse(random_seed: int) -> None:
    logits, y = simulate(random_seed, classes=5)
    loss = {cls._name: -np.log(point(cls, logits, y).predict_proba(logits)[np.arange(len(y)), y]).mean() for cls in ALL}
    raw = -log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()
    assert raw >= loss["temperature"] >= loss["bias-corrected-temperature"] >= loss["vector"] - 1e-12
    assert loss["temperature"] >= loss["no-bias-vector"] >= loss["vector"] - 1e-12


def test_scales_are_not_negative() -> None:
    # the scores rank the classes in reverse: the best scale that is not negative is 0, and biases give the shares
    logits = np.repeat(np.eye(3) * 3, 10, axis=0)
    y = np.concatenate([np.repeat([1, 2], 5), np.repeat([0, 2], 5), np.repeat([0, 1], 5)])
    cal = point(bc.TemperatureScaling, logits, y)
    assert cal.point_estimate_["temperature"] == np.inf
    np.testing.assert_allclose(cal.predict_proba(logits), 1 / 3, rtol=1e-9)
    vector = point(bc.VectorScaling, logits, y)
    assert (vector.point_estimate_["scale"] >= 0).all()
    np.testing.assert_allclose(vector.predict_proba(logits), 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("cls", ALL, **ids)
def test_weights_are_rows_repeated(cls: type, random_seed: int) -> None:
    logits, y = simulate(random_seed)
    weight = np.random.default_rng(random_seed).integers(0, 4, len(y))
    weighted = point(cls, logits, y, sample_weight=weight)
    repeated = point(cls, np.repeat(logits, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.predict_proba(logits), repeated.predict_proba(logits))


# Two classes


def test_two_classes_are_unsmoothed_logistic_regression(random_seed: int) -> None:
    logits, y = simulate(random_seed, classes=2)
    log_odds = logits[:, 1] - logits[:, 0]
    intercept, slope = fit_logistic(log_odds[:, None], y.astype(float), np.ones(len(y)))
    found = point(bc.BiasCorrectedTemperatureScaling, logits, y).point_estimate_
    # both stop at a gradient of the mean log likelihood of about 1e-10
    assert 1 / found["temperature"] == pytest.approx(slope, abs=1e-7)
    assert found["bias"][1] - found["bias"][0] == pytest.approx(intercept, abs=1e-7)


def test_two_classes_of_two_scales_are_beta_calibration(random_seed: int) -> None:
    logits, y = simulate(random_seed, classes=2)
    x = log_softmax(logits, axis=1)
    a, b, c = beta_maximum_likelihood(x[:, ::-1] * [1, -1], y.astype(float), np.ones(len(y)))
    found = point(bc.VectorScaling, logits, y).point_estimate_
    assert found["scale"] == pytest.approx([b, a], abs=1e-6)
    assert found["bias"][1] - found["bias"][0] == pytest.approx(c, abs=1e-6)


def test_two_classes_have_platts_posterior(random_seed: int) -> None:
    """Against sums over a grid of slope and intercept, whose prior is the difference of the two biases'."""
    logits, y = simulate(random_seed, n=60, classes=2)
    cal = bc.BiasCorrectedTemperatureScaling(score_kind="logit", draws=2000, random_state=random_seed)
    cal.fit(logits, y)
    log_t, intercept = np.meshgrid(np.linspace(-2.5, 2.5, 301), np.linspace(-5, 5, 401), indexing="ij")
    node, share = np.polynomial.legendre.leggauss(200)
    spread, share = 3 * (node + 1), 3 * share  # half normal on (0, 6)
    # bias_2 - bias_1 is Normal(0, 2 spread^2) given the spread
    kernel = np.exp(-0.5 * spread**2 - intercept[0, :, None] ** 2 / (4 * spread**2)) / spread
    log_prior = -0.5 * (log_t / 0.7) ** 2 + np.log(kernel @ share)
    log_odds = (logits[:, 1] - logits[:, 0]) * (2 * y - 1)
    eta = log_odds[:, None, None] / np.exp(log_t) + (2 * y - 1)[:, None, None] * intercept
    log_density = log_prior - np.logaddexp(0, -eta).sum(axis=0)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    at = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    drawn = cal.proba_draws(at).to_numpy()[..., 1]
    for k, x in enumerate(at[:, 1] - at[:, 0]):
        q = expit(x / np.exp(log_t) + intercept)
        mean = (weight * q).sum()
        sd = np.sqrt((weight * (q - mean) ** 2).sum())
        # 8000 draws with at least 400 effective: 5 standard errors
        assert abs(drawn[:, :, k].mean() - mean) < 5 * sd / np.sqrt(400)
        assert drawn[:, :, k].std() == pytest.approx(sd, rel=5 / np.sqrt(2 * 400))


# Hard data


SEPARATED = np.repeat(4 * np.eye(3), 8, axis=0), np.repeat([0, 1, 2], 8)


@pytest.mark.parametrize("cls", ALL, **ids)
def test_separated_classes_have_a_finite_answer_and_a_warning(cls: type) -> None:
    logits, y = SEPARATED
    with pytest.warns(bc.CalibrationWarning, match=r"separate the classes; .* no maximum.*smoothed"):
        cal = point(cls, logits, y)
    assert all(np.isfinite(value).all() for value in cal.point_estimate_.values())
    # derived: three distinct rows, saturated by symmetry: the probability of the own class is Platt's target
    np.testing.assert_allclose(cal.predict_proba(logits)[np.arange(24), y], 9 / 10, rtol=1e-6)


def test_smoothed_counts_are_platts_for_two_classes() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 0.0]])
    smoothed = smoothed_counts(counts)
    np.testing.assert_allclose(smoothed.sum(axis=1), counts.sum(axis=1), rtol=1e-14)
    # Platt (1999): a positive counts (N+ + 1) / (N+ + 2), a negative 1 / (N- + 2)
    np.testing.assert_allclose(smoothed[:, 1], counts[:, 1] * 6 / 7 + counts[:, 0] * 1 / 7, rtol=1e-14)


def test_one_separated_class_is_seen_by_vector_scaling_alone() -> None:
    rng = np.random.default_rng(0)
    x = log_softmax(rng.normal(size=(60, 3)), axis=1)
    y = rng.integers(0, 2, 60)
    x[:10] = log_softmax([0.0, 0.0, 6.0] + 0.1 * rng.normal(size=(10, 3)), axis=1)
    y[:10] = 2  # class 2 where its score is high, and only there; the others overlap
    x[0], y[0] = log_softmax([0.0, 9.0, 6.0]), 2
    x[1], y[1] = log_softmax([0.0, 9.0, 7.0]), 2
    found = {}
    for vector in (False, True):
        *_, finite = fit_scaling(Support(x, np.eye(3)[y]), vector=vector, biased=True)
        found[vector] = finite
    own, other = x[y == 2, 2].min(), x[y != 2, 2].max()
    assert found == {False: True, True: own <= other}


@pytest.mark.parametrize("cls", ALL, **ids)
def test_a_class_without_cases_is_finite(cls: type, random_seed: int) -> None:
    logits, y = simulate(random_seed, classes=4)
    kept = y != 3
    has_maximum = cls is bc.TemperatureScaling  # whose likelihood has one all the same
    says = "a point estimate" if has_maximum else "the likelihood has no maximum"
    with pytest.warns(bc.CalibrationWarning, match=rf"no case of class 3 among \d+; {says}"):
        cal = point(cls, logits[kept], y[kept])
    proba = cal.predict_proba(logits)
    assert np.isfinite(proba).all() and (proba > 0).all()
    assert proba.shape[1] == 4


@pytest.mark.parametrize("cls", BIASED, **ids)
def test_a_class_without_cases_has_its_bias_from_the_prior(cls: type, random_seed: int) -> None:
    logits, y = simulate(random_seed, classes=4)
    kept = y != 3
    with pytest.warns(bc.CalibrationWarning, match="no case of class 3"):
        cal = cls(score_kind="logit", random_state=random_seed).fit(logits[kept], y[kept])
    bias = cal.idata_.posterior["bias"].to_numpy()
    assert np.isfinite(bias).all()
    # it can only have been rare: its bias is below the others', and less well known than theirs
    relative = bias - bias[..., :3].mean(axis=-1, keepdims=True)
    sd, mean = relative.std(axis=(0, 1)), relative.mean(axis=(0, 1))
    assert mean[3] < mean[:3].min()
    assert sd[3] > 1.5 * sd[:3].max()
    width = np.diff(cal.predict_interval(logits))[..., 0].mean(axis=0)
    assert np.isfinite(width).all() and (width > 0).all()


def test_a_thousand_classes_of_few_cases() -> None:
    logits, y = simulate(0, n=30, classes=1000)
    with pytest.warns(bc.CalibrationWarning, match=r"no case of 9\d\d classes \(.*, \.\.\.\)"):
        cal = point(bc.BiasCorrectedTemperatureScaling, logits, y)
    proba = cal.predict_proba(logits)
    assert proba.shape == (30, 1000)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (proba > 0).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning")  # 400 draws of 2000 parameters are too few to pass
def test_a_thousand_classes_have_a_posterior() -> None:
    logits, y = simulate(0, n=30, classes=1000)
    with pytest.warns(bc.CalibrationWarning, match=r"no case of 9\d\d classes \(.*, \.\.\.\)"):
        cal = bc.VectorScaling(score_kind="logit", draws=200, chains=2, tune=300, random_state=0).fit(logits, y)
    assert cal.diagnostics_.attrs["divergences"] == 0
    interval = cal.predict_interval(logits)
    assert interval.shape == (30, 1000, 2)
    assert np.isfinite(interval).all()
    with pytest.raises(bc.ScoreValueError, match="GB"):
        cal.proba_draws(np.zeros((1400, 1000)))


def test_zeros_among_the_probabilities_count_as_the_floor() -> None:
    p = np.array([[0.0, 0.4, 0.6], [1.0, 0.0, 0.0]])
    x = log_probabilities(p, "proba")
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x[0, 0], np.log(1e-12), rtol=1e-9)
    np.testing.assert_allclose(x[1], [0.0, np.log(1e-12), np.log(1e-12)], rtol=1e-9, atol=1e-11)


def test_missing_scores_are_refused() -> None:
    logits, y = simulate(0)
    logits[7, 1] = np.nan
    with pytest.raises(bc.ScoreValueError, match=r"NaN or infinite.*row 7, column 1"):
        point(bc.TemperatureScaling, logits, y)


# Memory


def test_many_rows_are_answered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, y = simulate(0, n=100, classes=5)
    cal = bc.TemperatureScaling(score_kind="logit", draws=1000, chains=4, random_state=0).fit(logits, y)
    largest = []

    def watched(x: np.ndarray, scale: np.ndarray, bias: Any) -> np.ndarray:
        eta = scaled_logits(x, scale, bias)
        largest.append(eta.size)
        return eta

    monkeypatch.setattr("bayescal.calibrators.scaling.scaled_logits", watched)
    many = np.tile(logits, (30, 1)) + np.arange(3000)[:, None]
    np.testing.assert_allclose(cal.predict_proba(many)[:100], cal.predict_proba(logits), rtol=0, atol=1e-12)
    assert len(largest) > 10
    assert max(largest) <= 2**22  # of 3000 x 5 x 4000


# Posterior and its summaries


def test_draws_go_through_the_map(random_seed: int) -> None:
    logits, y = simulate(random_seed, n=80)
    cal = bc.VectorScaling(score_kind="logit", draws=300, random_state=random_seed).fit(logits, y)
    posterior = cal.idata_.posterior
    x = log_softmax(logits, axis=1)
    eta = posterior["scale"].to_numpy()[:, :, None] * x + posterior["bias"].to_numpy()[:, :, None]
    np.testing.assert_allclose(cal.proba_draws(logits), softmax(eta, axis=-1), rtol=1e-12, atol=1e-15)
    spread, raw, temperature = (posterior[name].to_numpy() for name in ("scale_spread", "scale_raw", "temperature"))
    np.testing.assert_allclose(posterior["scale"], np.exp(spread[..., None] * raw) / temperature[..., None], rtol=1e-12)


@pytest.mark.parametrize("cls", ALL, **ids)
def test_priors_shrink(cls: type) -> None:
    logits, y = simulate(0, n=40)
    priors = {name: 1e-3 for name, _, _ in cls()._priors_class().describe() if name.endswith("sd")}
    cal = cls(score_kind="logit", draws=100, chains=2, tune=200, random_state=0, priors=priors)
    with pytest.warns(bc.ConvergenceWarning):
        cal.fit(logits, y)
    np.testing.assert_allclose(cal.predict_proba(logits), softmax(logits, axis=1), rtol=0, atol=0.01)


def test_priors_of_another_member_are_refused() -> None:
    logits, y = simulate(0)
    with pytest.raises(bc.ParameterValueError, match=r"no setting 'bias_spread_sd'.*temperature_log_mean"):
        bc.TemperatureScaling(score_kind="logit", priors={"bias_spread_sd": 1.0}).fit(logits, y)


def test_logit_of_two_columns_is_the_difference() -> None:
    p = np.array([0.2, 0.9])
    x = log_probabilities(np.column_stack([1 - p, p]), "proba")
    np.testing.assert_allclose(x[:, 1] - x[:, 0], logit(p), rtol=1e-12)
