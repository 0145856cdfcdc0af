"""Can a forecast be trusted: `bayescal.assess`."""

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression

import bayescal as bc
from bayescal.evaluation.assessment import FITTED, NEAR, POINTS, POWER, Assessment, _resample
from bayescal.evaluation.calibrated import log_bayes_factor
from bayescal.evaluation.measures import distances, logistic_measures, score_parts
from bayescal.evaluation.miscalibration import distinct_points
from bayescal.evaluation.monotonicity import monotonicity_p_value, rising_shares
from bayescal.plots.reliability import observed_shares
from bayescal.validation import quiet

FEW = {"curve": "platt", "progressbar": False}
GROUPING_MOVES = {"e50": 0.01, "e90": 0.01, "emax": 0.002, "in_the_large": 0.002, "log_loss": 0.002}


def forecast(n: int, slope: float = 1.0, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of log-odds `slope * logit(p)`, and p."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 1.5, n)
    return (rng.random(n) < expit(slope * logit(p))).astype(int), p


@pytest.fixture(scope="module")
def extreme() -> Assessment:
    return bc.assess(*forecast(300, 0.4), random_state=1, **FEW)


def test_summary_is_of_the_draws(extreme: Assessment) -> None:
    table = extreme.summary()
    for name in table.index:
        draws = extreme.draws[name].to_numpy().reshape(-1)
        assert table.loc[name, "mean"] == pytest.approx(draws.mean(), rel=1e-12)
        assert table.loc[name, "lower"] == pytest.approx(np.quantile(draws, 0.05), abs=1e-9)
        assert table.loc[name, "upper"] == pytest.approx(np.quantile(draws, 0.95), abs=1e-9)


def test_estimates_are_the_metrics(extreme: Assessment) -> None:
    y, p = forecast(300, 0.4)
    estimate = extreme.summary()["estimate"]
    assert estimate["brier"] == pytest.approx(bc.metrics.brier_score(y, p), rel=1e-12)
    assert estimate["slope"] == pytest.approx(bc.metrics.calibration_slope(y, p), rel=1e-12)
    assert estimate["ici"] == pytest.approx(bc.metrics.ici(y, p), rel=1e-12)
    assert estimate["bias"] == pytest.approx(np.mean(y - p), abs=1e-15)


def test_extreme_forecast_is_found(extreme: Assessment) -> None:
    assert extreme.probability(slope__lt=1, ece__gt=0.02) > 0.999
    assert extreme.probability_calibrated < 1e-3
    assert extreme.bayes_factor == pytest.approx(np.exp(extreme.log_bayes_factor))


def test_parts_of_the_brier_score_add_up(extreme: Assessment) -> None:
    d = extreme.draws
    np.testing.assert_allclose(d.brier, d.miscalibration - d.discrimination + d.uncertainty, atol=1e-14)


def test_curve_is_that_of_the_draws(extreme: Assessment) -> None:
    seen = extreme.curve_at(extreme.stated)
    np.testing.assert_allclose(seen["mean"], extreme.curve_draws.mean(("chain", "draw")), atol=1e-12)
    assert float(extreme.curve.proba[0]) == extreme.stated[0]
    assert (extreme.curve["lower"] < extreme.curve["upper"]).all()
    narrow = extreme.curve_at([0.5], ci_prob=0.5)
    wide = extreme.curve_at([0.5])
    assert (narrow.upper - narrow.lower) < (wide.upper - wide.lower)
    with pytest.raises(bc.ScoreValueError, match="proba"):
        extreme.curve_at([1.5])


def test_cases_and_events_are_counted(extreme: Assessment) -> None:
    y, p = forecast(300, 0.4)
    assert extreme.cases.sum() == 300
    assert extreme.events.sum() == y.sum()
    np.testing.assert_array_equal(extreme.stated, np.unique(p))


def test_seed_and_weights() -> None:
    y, p = forecast(60)
    weight = np.tile([1.0, 2.0, 0.0], 20)
    whole = weight.astype(int)
    with quiet(bc.CalibrationWarning):  # cases that count twice scatter more than a curve allows
        weighted = bc.assess(y, p, weight, random_state=5, **FEW)
        again = bc.assess(y, p, weight, random_state=5, **FEW)
        repeated = bc.assess(np.repeat(y, whole), np.repeat(p, whole), random_state=5, **FEW)
    assert weighted.draws.identical(again.draws)
    np.testing.assert_allclose(weighted.summary()["mean"], repeated.summary()["mean"], rtol=1e-6, atol=1e-9)


def test_labels_and_shapes() -> None:
    y, p = forecast(40)
    words = np.array(["dry", "wet"])[y]
    plain = bc.assess(y, p, random_state=2, **FEW).draws
    assert bc.assess(words, np.column_stack([1 - p, p]), random_state=2, **FEW).draws.identical(plain)
    other = bc.assess(words, 1 - p, pos_label="dry", random_state=2, **FEW)
    assert other.positive == "dry"
    assert float(other.draws.bias.mean()) == pytest.approx(-float(plain.bias.mean()), abs=0.05)


def test_a_class_that_never_came_and_probabilities_of_0_and_1() -> None:
    with pytest.warns(bc.CalibrationWarning):
        found = bc.assess([0] * 20, np.linspace(0, 0.3, 20), pos_label=1, random_state=0, **FEW)
    assert np.isfinite(found.summary()[["mean", "lower", "upper"]]).all(axis=None)
    y, p = forecast(60)
    assert np.isfinite(bc.assess(y, np.round(p), random_state=0, **FEW).draws.log_loss).all()


def test_equal_probabilities_have_no_slope() -> None:
    with quiet(bc.CalibrationWarning):
        found = bc.assess([0, 1, 1, 0, 1] * 6, np.full(30, 0.5), random_state=0, **FEW)
    assert np.isnan(found.summary().loc["slope", "mean"])
    assert np.isnan(found.probability(slope__lt=1))
    assert found.monotonicity_p_value == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [({"curve": "copula"}, "curve"), ({"ci_prob": 1.0}, "ci_prob"), ({"draws": 0}, "draws"), ({"chains": 0}, "chains")],
)
def test_wrong_settings(setting: dict[str, object], words: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=words):
        bc.assess([0, 1, 1], [0.2, 0.5, 0.7], **setting)


def test_wrong_probabilities() -> None:
    with pytest.raises(bc.ScoreValueError, match="y_proba"):
        bc.assess([0, 1], [0.2, 1.2])
    with pytest.raises(bc.ScoreValueError, match="sum"):
        bc.assess([0, 1, 2], np.full((3, 3), 0.5))
    with pytest.raises(bc.ParameterValueError, match="pos_label"):
        bc.assess([0, 1, 2], np.full((3, 3), 1 / 3), pos_label=1)


def test_falling_outcomes_contradict_a_rising_curve() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = rng.random(400) < np.select([p < 0.3, p < 0.5, p < 0.7], [0.1, 0.8, 0.2], 0.9)
    with pytest.warns(bc.CalibrationWarning, match="contradict"):
        found = bc.assess(y, p, random_state=0, **FEW)
    assert found.monotonicity_p_value < 0.01


def test_reliability_diagram_is_of_the_forecast(extreme: Assessment) -> None:
    y, p = forecast(300, 0.4)
    ax = bc.plot_reliability(extreme, ci_prob=0.5, bins=4)
    line = next(line for line in ax.lines if line.get_label() == "forecast")
    x, mean = line.get_data()
    curve = extreme.curve_at(x, ci_prob=0.5)
    np.testing.assert_allclose(mean, curve["mean"])
    assert (x.min(), x.max()) == (p.min(), p.max())
    found = observed_shares(p, y.astype(float), np.ones(300), 4, 0.5)
    points = ax.containers[0].lines[0].get_data()
    np.testing.assert_allclose(points, (found.x, found.share))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any("forecast, 50 % credible band" in text for text in words)
    ticks = [text.get_text() for text in ax.get_yticklabels()]
    assert f"{y.sum()} of class 1" in ticks and f"{300 - y.sum()} others" in ticks
    with pytest.raises(bc.ParameterValueError, match="assessment"):
        bc.plot_reliability(extreme, which="calibrated")


def test_several_classes() -> None:
    rng = np.random.default_rng(6)
    q = rng.dirichlet([1.0, 1.0, 1.0], 300)
    labels = np.array(["ape", "bee", "cow"])
    y = labels[(rng.random((300, 1)) > np.cumsum(q, axis=1)).sum(axis=1)]
    p = q**2 / (q**2).sum(axis=1, keepdims=True)  # too sure
    found = bc.assess(y, p, random_state=1, **FEW)
    assert list(found.by_class) == labels.tolist()
    for k, name in enumerate(labels):
        one = found.by_class[name]
        assert one.estimates["slope"] == bc.metrics.calibration_slope(y == name, p[:, k])
        assert one.probability(slope__lt=1) > 0.99
    assert found.top_label.stated.min() >= 1 / 3
    assert found.top_label.probability(bias__lt=0) > 0.99
    table = found.summary()
    assert table.index.get_level_values("part").unique().tolist() == ["ape", "bee", "cow", "top label", "vector"]
    # the truth is inside of the family that the rows are compared with: known distances of these rows
    assert table.loc[("vector", "distance"), "lower"] < 0.5 * np.abs(q - p).sum(axis=1).mean()
    assert table.loc[("vector", "distance"), "upper"] > 0.5 * np.abs(q - p).sum(axis=1).mean()
    brier = ((p[:, None, :] - np.eye(3)) ** 2).sum(axis=2)
    expected = (q * brier).sum(axis=1).mean()
    assert table.loc[("vector", "brier"), "lower"] < expected < table.loc[("vector", "brier"), "upper"]
    assert found.vector.probability(distance__gt=0.02) == 1


def test_warnings_name_the_classes_of_the_forecast() -> None:
    p, y = np.random.default_rng(2).dirichlet([2.0, 2.0, 2.0], 60), ["ape", "bee"] * 30
    with pytest.warns(bc.CalibrationWarning) as caught:
        found = bc.assess(y, p, labels=["ape", "bee", "cow"], random_state=0, **FEW)
    absent = [str(w.message) for w in caught if "no case of class" in str(w.message)]
    assert [text.partition(":")[0] for text in absent] == [
        "assessment of 'cow'",
        "bias-corrected-temperature calibration",
    ]
    assert all("no case of class cow among 60" in text for text in absent)
    assert found.by_class["bee"].positive == "bee"
    assert found.top_label.positive == "top label"
    with pytest.raises(bc.ParameterValueError, match=r"by_class\['ape'\]"):
        bc.decision_curve(found)


def test_reversed_probabilities_are_told_what_to_do() -> None:
    y, p = forecast(200)
    with pytest.warns(bc.CalibrationWarning) as caught:
        bc.assess(y, 1 - p, random_state=0, **FEW)
    assert ["1 - p" in str(w.message) for w in caught] == [True, False]  # and that the curve falls
    assert "contradict" in str(caught[1].message)


def test_draws_that_do_not_converge_are_told_by_words_that_assess_knows() -> None:
    with pytest.warns(bc.ConvergenceWarning) as caught:
        bc.assess(*forecast(60), draws=20, random_state=0, **FEW)
    assert ["draws=2000" in str(w.message) and "tune" not in str(w.message) for w in caught] == [True]


def test_curve_at_one_probability(extreme: Assessment) -> None:
    assert extreme.curve_at(0.3).equals(extreme.curve_at([0.3]))


# pieces --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 20, 200])
def test_bayes_factor_against_a_fine_grid(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.normal(0, 1.5, n)
    y = (rng.random(n) < expit(x)).astype(float)
    step = np.linspace(-6, 6, 1201)
    intercept, log_slope = np.meshgrid(step, step, indexing="ij")
    total = -0.5 * (intercept**2 + log_slope**2) - np.log(2 * np.pi)
    for x_i, y_i in zip(x, y, strict=True):
        eta = intercept + np.exp(log_slope) * x_i
        total += y_i * eta - np.logaddexp(0, eta)
    free = logsumexp(total) + 2 * np.log(step[1] - step[0])
    exact = (y * x - np.logaddexp(0, x)).sum() - free
    # 32 nodes leave 1e-4 where three cases make the integrand far from Gaussian
    assert log_bayes_factor(x, np.ones(n), y) == pytest.approx(exact, abs=1e-3 if n == 3 else 1e-4)


def test_rising_shares_are_pooled_adjacent_violators() -> None:
    rng = np.random.default_rng(1)
    cases = rng.integers(1, 20, 7).astype(float)
    positives = rng.binomial(cases.astype(int), 0.5, (50, 7)).astype(float)
    for row, found in zip(positives, rising_shares(positives, cases), strict=True):
        pooled = IsotonicRegression().fit_transform(np.arange(7), row / cases, sample_weight=cases)
        np.testing.assert_allclose(found, pooled, atol=1e-12)


def test_p_values_of_a_true_curve_are_not_small_too_often() -> None:
    rng = np.random.default_rng(4)
    p = np.sort(rng.random(200))
    q = np.tile(p, (200, 1))
    found = [monotonicity_p_value(np.ones(200), (rng.random(200) < p) * 1.0, q, rng) for _ in range(300)]
    # replicated from the truth itself, a p-value of at most 0.05 comes in 5 % of data sets
    assert binom.sf(np.sum(np.array(found) <= 0.05) - 1, 300, 0.06) > 1e-4
    assert binom.cdf(np.sum(np.array(found) <= 0.5), 300, 0.4) > 1e-4


def test_resampling_follows_the_prior_factor() -> None:
    stated = np.array([0.3, 0.6])
    q = np.repeat([[0.3, 0.6], [0.36, 0.66]], 10_000, axis=0)
    q = q[np.random.default_rng(0).permutation(len(q))]
    chosen = _resample(q, stated, np.array([0.5, 0.5]), (4, 5000), np.random.default_rng(1))
    factor = (1 + (0.06 / NEAR) ** 2) ** -POWER
    expected = factor / (1 + factor)
    error = np.sqrt(expected * (1 - expected) / len(q))  # of independent draws; evenly spread ones have less
    assert np.mean(q[chosen, 0] == 0.36) == pytest.approx(expected, abs=4 * error)
    assert (chosen.reshape(4, -1) // 5000 == np.arange(4)[:, None]).all()


def test_measures_with_shares_of_each_draw_are_those_of_one_draw_at_a_time() -> None:
    rng = np.random.default_rng(2)
    stated = np.sort(rng.random(30))
    q = np.sort(rng.random((6, 30)), axis=1)
    share = rng.dirichlet(np.ones(30), 6)

    def measured(q: np.ndarray, share: np.ndarray) -> dict[str, np.ndarray]:
        return {
            **distances(stated, q, share),
            **logistic_measures(logit(stated), q, share),
            **score_parts(stated, q, share),
        }

    together = measured(q, share)
    for k in range(6):
        for name, value in measured(q[[k]], share[k]).items():
            assert together[name][k] == pytest.approx(value[0], rel=1e-6, abs=1e-9), name
    d, w = np.abs(q[0] - stated), share[0]
    assert together["ici"][0] == pytest.approx(w @ d)
    assert together["brier"][0] == pytest.approx(w @ (q[0] * (1 - stated) ** 2 + (1 - q[0]) * stated**2))


def test_fitting_to_groups_hardly_moves_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    y, p = forecast(1000, 0.6)
    found = {}
    for size in (POINTS, FITTED):
        monkeypatch.setattr("bayescal.evaluation.assessment.FITTED", size)
        found[size] = bc.assess(y, p, random_state=4, chains=4, draws=1000, **FEW)
        assert len(np.unique(found[size].calibrator._require_rows().scores)) <= size
    both = [one.curve_at(np.linspace(0.02, 0.98, 25)) for one in found.values()]
    for name in ("mean", "lower", "upper"):
        np.testing.assert_allclose(both[0][name], both[1][name], atol=0.006)
    np.testing.assert_array_equal(found[POINTS].stated, found[FITTED].stated)


def test_curve_is_an_average_of_a_line_and_a_polynomial() -> None:
    found = bc.assess(*forecast(80), random_state=1, progressbar=False)
    assert list(found.calibrator.weights_.index) == ["platt", "bernstein"]


@pytest.mark.parametrize("law", [(1.0, 1.5), (0.5, 3.0), (0.2, 0.2)])
def test_grouping_many_probabilities_hardly_moves_a_measure(law: tuple[float, float], random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    p = np.clip(rng.beta(*law, 5000), 1e-6, 1 - 1e-6)
    t = expit(rng.normal(1, 0.4, (50, 1)) * logit(p) + rng.normal(0, 0.3, (50, 1)))
    stated, group = distinct_points(p, np.ones(5000), "proba", POINTS)
    assert POINTS / 2 < len(stated) <= POINTS
    cases = np.bincount(group)
    assert cases @ stated == pytest.approx(p.sum())
    q = np.array([np.interp(stated, np.sort(p), of_draw[np.argsort(p)]) for of_draw in t])
    order = np.full(5000, 1 / 5000)
    exact = {**distances(p, t, order), **logistic_measures(logit(p), t, order), **score_parts(p, t, order)}
    share = cases / 5000
    found = {
        **distances(stated, q, share),
        **logistic_measures(logit(stated), q, share),
        **score_parts(stated, q, share),
    }
    for name, values in exact.items():
        assert np.abs(found[name] - values).max() < GROUPING_MOVES.get(name, 0.0005), name
