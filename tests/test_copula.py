"""Copula fusion: the library's model against the specification, its exact tables, its map, and its point estimate."""

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import expit, logit

import bayescal as bc
from bayescal.calibrators import copula_margins as margins
from bayescal.calibrators import copula_point as point
from bayescal.calibrators import copula_vine as vine
from bayescal.calibrators.copula_families import log_density

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "data/copulas/recorded.json").read_text(encoding="utf-8"))["statsmodels"]
RUN = Mode(linker="py", optimizer="fast_run")
POINTS = 20
QUICK = {"draws": 150, "tune": 300, "chains": 2, "random_state": 1, "progressbar": False}
GAUSSIAN = vine.NAMES.index("gaussian")
EXCHANGEABLE = [name for name in vine.NAMES if name not in ("plackett", "independence", *point.ELLIPTICAL)]


def specification() -> ModuleType:
    spec = importlib.util.spec_from_file_location("models_copula", HERE.parent / "models/copula.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulate(seed: int, n: int, columns: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Scores that agree within each class, and labels of either class."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    shared = rng.normal(size=(n, 1))
    return expit(1.2 * (2 * y[:, None] - 1) + shared + rng.normal(size=(n, columns))), y


# the model ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library() -> dict[str, Any]:
    """The library's model of 40 rows with scores of 0 and 1, and the specification's of the same rows."""
    scores, y = simulate(3, 40)
    scores[:3] = [[0.0, 1.0], [0.0, 0.4], [1.0, 1.0]]
    calibrator = bc.CopulaCalibrator()
    job = calibrator._prepare(scores, y, None)
    plain = specification().model(scores, y, **asdict(job.priors))
    return {"calibrator": calibrator, "job": job, "model": calibrator._build(**job.data), "plain": plain}


def features(library: dict[str, Any]) -> np.ndarray:
    calibrator, job = library["calibrator"], library["job"]
    return calibrator._features(calibrator._coordinate(job.rows.scores, job.scale), job.scale)


def random_points(library: dict[str, Any], seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    start = library["plain"].initial_point()
    return [{name: 0.7 * rng.normal(size=np.shape(value)) for name, value in start.items()} for _ in range(POINTS)]


def as_draws(library: dict[str, Any], points: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The specification's points as parameters of the library's map, with its normal copula."""
    model = library["model"]
    terms = pytensor.function([model["raw"], model["bend"]], model["terms"], mode=RUN)
    tau = vine.MOST_TAU * np.tanh([p["agreement"] for p in points])
    return {
        "terms": np.array([terms(p["raw"], np.exp(p["bend_log__"])) for p in points]),
        "rate": expit(np.array([p["rate_logodds__"] for p in points])),
        "tau": tau[:, :, None],
        "family": np.full((len(points), 2, 1), GAUSSIAN),
    }


def test_log_density_is_the_specifications(library: dict[str, Any], random_seed: int) -> None:
    # what the library draws exactly is added to its margins: prior of agreement and rate, labels, and normal copulas
    points = random_points(library, random_seed)
    draws, positive, phi = as_draws(library, points), library["job"].rows.positive, features(library)
    margin = library["model"].compile_logp(mode=RUN)
    plain = library["plain"].compile_logp(mode=RUN)
    found = []
    for k, at in enumerate(points):
        rate = draws["rate"][k]
        value = margin({name: at[name] for name in ("raw", "bend_log__")})
        value += stats.norm(0.4, 0.6).logpdf(at["agreement"]).sum() + np.log(rate) + np.log1p(-rate)
        value += (positive * np.log(rate) + (1 - positive) * np.log1p(-rate)).sum()
        for label in (0, 1):
            theta = draws["terms"][k : k + 1, 0] + (label - 0.5) * draws["terms"][k : k + 1, 1]
            u = np.stack(
                [margins.log_density_and_distribution(theta[:, j], phi[:, j, 0], phi[:, j, 1:])[1] for j in range(2)],
                axis=2,
            )
            copula = vine.vine_log_density(u, draws["family"][k : k + 1, label], draws["tau"][k : k + 1, label])
            value += copula[0, positive == label].sum()
        found.append(value)
    expected = np.array([plain(at) for at in points])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=0, atol=1e-8)
    assert np.ptp(expected) > 1.0


HARD = {
    "two rows": ([[0.2, 0.3], [0.7, 0.1]], [0, 1]),
    "two equal rows": ([[0.7, 0.7], [0.7, 0.7]], [0, 1]),
    "one class": (np.linspace(0.1, 0.9, 60).reshape(30, 2), np.zeros(30, dtype=int)),
    "separated": (np.linspace(0.0, 1.0, 60).reshape(30, 2), np.repeat([0, 1], 15)),
    "zeros and ones": (np.repeat([[0.0, 1.0], [1.0, 1.0]], 10, axis=0), np.tile([0, 1], 10)),
    "a thousand": simulate(0, 1000),
}


@pytest.mark.parametrize("data", HARD)
def test_specification_is_finite_and_says_what_its_axes_are(data: str, random_seed: int) -> None:
    scores, y = HARD[data]
    model = specification().model(np.array(scores), np.array(y))
    logp, start = model.compile_logp(mode=RUN), model.initial_point()
    rng = np.random.default_rng(random_seed)
    for at in (start, {name: rng.normal(size=np.shape(value)) for name, value in start.items()}):
        assert np.isfinite(logp(at))
    (observed,) = model.observed_RVs
    assert observed.name == "y" and model.named_vars_to_dims["y"] == ("case",)
    for variable in model.free_RVs:
        assert len(model.named_vars_to_dims.get(variable.name, ())) == variable.ndim


def test_map_is_the_specifications(library: dict[str, Any], random_seed: int) -> None:
    points = random_points(library, random_seed)
    plain = library["plain"]
    (p,) = plain["y"].owner.op.dist_params(plain["y"].owner)
    probability = pytensor.function([plain[name] for name in ("raw", "bend", "agreement", "rate")], p, mode=RUN)
    expected = np.array(
        [
            probability(at["raw"], np.exp(at["bend_log__"]), at["agreement"], expit(at["rate_logodds__"]))
            for at in points
        ]
    )
    found = expit(library["calibrator"]._log_odds(features(library), as_draws(library, points)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_gradient_is_that_of_finite_differences(library: dict[str, Any], random_seed: int) -> None:
    model = library["model"]
    value, gradient = model.compile_logp(mode=RUN), model.compile_dlogp(mode=RUN)
    rng = np.random.default_rng(random_seed)
    at = {name: rng.normal(size=np.shape(start)) for name, start in model.initial_point().items()}
    found = []
    for name in at:
        for index in np.ndindex(at[name].shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = at[name].copy()
                moved[index] += step
                sides.append(float(value({**at, name: moved})))
            found.append((sides[0] - sides[1]) / 2e-5)
    np.testing.assert_allclose(gradient(at), found, rtol=1e-6, atol=1e-5)


def test_prior_draws_have_the_moments_of_the_prior(library: dict[str, Any], random_seed: int) -> None:
    calibrator, job = library["calibrator"], library["job"]
    size = 20_000
    draws = calibrator._prior_draws(np.random.default_rng(random_seed), size, job.priors, job.scale)
    with library["model"]:
        terms = pm.draw(library["model"]["terms"], 4000, random_seed=random_seed, mode=RUN)
    for moment in (1, 2):
        ours, theirs = draws["terms"] ** moment, terms**moment
        error = np.hypot(ours.std(axis=0) / np.sqrt(size), theirs.std(axis=0) / np.sqrt(4000))
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * error).all()
    x = np.arctanh(draws["tau"] / vine.MOST_TAU)
    assert x.mean() == pytest.approx(0.4, abs=5 * 0.6 / np.sqrt(2 * size))
    assert x.std() == pytest.approx(0.6, abs=5 * 0.6 / np.sqrt(4 * size))
    share = np.bincount(draws["family"].reshape(-1), minlength=9) / draws["family"].size
    np.testing.assert_allclose(share, 1 / 9, atol=5 * np.sqrt(1 / 9 * 8 / 9 / draws["family"].size))


def test_margins_are_densities_with_their_distribution(random_seed: int) -> None:
    theta = np.random.default_rng(random_seed).normal(0, 0.5, (6, margins.TERMS))
    theta[:, 2:4] = np.array([-0.5, -0.1, 0.0, 0.1, 0.5, 1.0])[:, None]  # from light tails to piles at both ends
    z = np.linspace(-margins.LIMIT, margins.LIMIT, 20_001)
    log_ratio, distribution = margins.log_density_and_distribution(theta, z, margins.terms(z))
    f = np.exp(log_ratio - np.logaddexp(0, -z) - np.logaddexp(0, z))
    area = np.concatenate([np.zeros((6, 1)), np.cumsum((f[:, 1:] + f[:, :-1]) / 2, axis=1) * (z[1] - z[0])], axis=1)
    # bends of this size change within a cell of the library's grid of 161 nodes
    np.testing.assert_allclose(area[:4, -1], 1.0, atol=2e-3)
    np.testing.assert_allclose(area[:, -1], 1.0, atol=1e-2)
    np.testing.assert_allclose(distribution, area, atol=1e-2)


def test_a_beta_margin_has_its_own_terms() -> None:
    p = np.linspace(0.01, 0.99, 50)
    theta = np.zeros((1, margins.TERMS))
    theta[0, :2] = 1.5, 0.4  # a density p^1.5 (1 - p)^0.4 of p, on all but the very ends
    z = logit(p)
    log_ratio, distribution = margins.log_density_and_distribution(theta, z, margins.terms(z))
    np.testing.assert_allclose(log_ratio[0], stats.beta(2.5, 1.4).logpdf(p), atol=2e-3)
    np.testing.assert_allclose(distribution[0], stats.beta(2.5, 1.4).cdf(p), atol=2e-3)


# family and tau -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 12, 80, 2000])
def test_tables_have_the_posterior_of_quadrature(n: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    size = 4000
    x = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], n)
    u, weight = stats.norm.cdf(x), rng.integers(1, 3, n).astype(float)
    family, tau = vine.posterior_draws(rng, np.broadcast_to(u, (size, n, 2)), weight, np.arange(9), 0.4, 0.6)
    grid = np.linspace(-2.5, 2.5, 4001)
    inside = np.clip(u, vine.U_CLIP, 1 - vine.U_CLIP)
    table = (
        np.array(
            [
                vine.log_likelihood(
                    name, inside[None, :, 1], inside[None, :, 0], weight, vine.MOST_TAU * np.tanh(grid)
                )[0]
                for name in vine.NAMES
            ]
        )
        - 0.5 * ((grid - 0.4) / 0.6) ** 2
    )
    posterior = np.exp(table - table.max())
    posterior /= posterior.sum()
    share = np.bincount(family[:, 0], minlength=9) / size
    np.testing.assert_allclose(share, posterior.sum(axis=1), atol=5 * np.sqrt(0.25 / size))
    mean = (posterior * grid).sum()
    sd = np.sqrt((posterior * (grid - mean) ** 2).sum())
    found = np.arctanh(tau[:, 0] / vine.MOST_TAU)
    assert found.mean() == pytest.approx(mean, abs=5 * sd / np.sqrt(size))
    assert found.std() == pytest.approx(sd, rel=0.12)


def test_draws_beyond_the_budget_share_tables(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    u = rng.random((3 * vine.TABLES // 1000, 1000, 2))
    family, tau = vine.posterior_draws(rng, u, np.ones(1000), np.array([GAUSSIAN]), 0.4, 0.6)
    assert family.shape == tau.shape == (len(u), 1)
    assert np.abs(tau).max() < 0.2  # independent rows


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_a_vine_of_normal_pairs_is_the_normal_copula(columns: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    count = vine.pair_count(columns)
    tau = rng.uniform(-0.4, 0.4, (3, count))  # so that no conditional probability is at the edge
    u = rng.uniform(0.1, 0.9, (3, 10, columns))
    found = vine.vine_log_density(u, np.full((3, count), GAUSSIAN), tau)
    for k in range(3):
        r = point.correlation(tau[k], columns)
        x = stats.norm.ppf(u[k])
        expected = stats.multivariate_normal(np.zeros(columns), r).logpdf(x) - stats.norm.logpdf(x).sum(axis=1)
        np.testing.assert_allclose(found[k], expected, rtol=1e-7, atol=1e-7)


# point estimate -------------------------------------------------------------------------------------------------------


def test_kernel_margin_is_statsmodels() -> None:
    recorded = RECORDED["kde"]
    sample, at = np.array(recorded["sample"]), np.array(recorded["at"])
    width = point.bandwidth(sample, np.ones(len(sample)))
    assert width == pytest.approx(recorded["bandwidth"], rel=1e-3)  # theirs has more digits of 1.059 and 1.349
    log_f, _ = point.kernel_margin(at, sample, np.ones(len(sample)), recorded["bandwidth"])
    np.testing.assert_allclose(np.exp(log_f), recorded["density"], rtol=1e-10)


def test_weights_of_kernel_margins_count_cases(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    sample, weight, at = rng.random(20), rng.integers(0, 4, 20).astype(float), rng.random(5)
    repeated = np.repeat(sample, weight.astype(int))
    assert point.bandwidth(sample, weight) == pytest.approx(point.bandwidth(repeated, np.ones(len(repeated))))
    for ours, theirs in zip(
        point.kernel_margin(at, sample, weight, 0.1),
        point.kernel_margin(at, repeated, np.ones(len(repeated)), 0.1),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("name", EXCHANGEABLE)
def test_exchangeable_family_of_two_is_the_pair_copula(name: str, random_seed: int) -> None:
    u = np.random.default_rng(random_seed).uniform(0.01, 0.99, (50, 2))
    close = 1e-6 if name == "frank" else 1e-8  # 1 - h of its general form loses digits
    direct = point._EXCHANGEABLE[name.removeprefix("rotated ")]
    for tau in (0.05, 0.5, 0.85):
        a = point.FAMILIES[name].parameter(np.array(tau))
        found = direct(1 - u if name.startswith("rotated") else u, a)
        np.testing.assert_allclose(found, log_density(name, u[:, 0], u[:, 1], tau), rtol=close, atol=close)


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("name", ["gaussian", "t", *EXCHANGEABLE])
def test_copula_of_more_scores_has_that_of_fewer_as_margin(name: str, columns: int) -> None:
    # one score is integrated out of the density of three or four
    x = np.linspace(-25, 25, 2001)
    last = expit(x)
    rest = np.array([0.15, 0.6, 0.35])[: columns - 1]
    tau = np.full(vine.pair_count(columns), 0.4)
    u = np.column_stack([np.tile(rest, (len(x), 1)), last])
    area = (np.exp(point.log_density(name, u, tau)) * last * (1 - last)).sum() * (x[1] - x[0])
    fewer = point.log_density(name, rest[None], tau[: vine.pair_count(columns - 1)])[0]
    if columns == 4 and name in point.ELLIPTICAL:  # pairs come level by level: (12, 13, 14, 23, 24, 34)
        fewer = point.log_density(name, rest[None], tau[[0, 1, 3]])[0]
    assert np.log(area) == pytest.approx(fewer, abs=1e-6)


@pytest.mark.parametrize("columns", [2, 3])
def test_likelihood_picks_the_family(columns: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    n = 3000
    frailty = rng.gamma(0.5, size=(n, 1))  # Marshall & Olkin (1988): Clayton with parameter 2, tau = 1/2
    u = (1 + rng.exponential(size=(n, columns)) / frailty) ** -0.5
    for data, name in ((u, "clayton"), (1 - u, "rotated clayton")):
        family, tau = point.fit_copula(data, np.ones(n), point.candidates(vine.NAMES, columns))
        assert vine.NAMES[family] == name
        np.testing.assert_allclose(tau, 0.5, atol=0.06)
    correlation = np.full((columns, columns), 0.6) + 0.4 * np.eye(columns)
    x = rng.multivariate_normal(np.zeros(columns), correlation, n)
    family, tau = point.fit_copula(stats.norm.cdf(x), np.ones(n), ("gaussian", "clayton", "gumbel"))
    assert family == GAUSSIAN
    np.testing.assert_allclose(point.correlation(tau, columns), correlation, atol=0.07)


# the calibrator -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> bc.CopulaCalibrator:
    with pytest.warns(bc.ConvergenceWarning):  # few draws
        return bc.CopulaCalibrator(**QUICK).fit(*simulate(0, 120))


def test_posterior_holds_margins_families_and_rate(fitted: bc.CopulaCalibrator) -> None:
    posterior = fitted.idata_.posterior
    assert set(posterior) == {"raw", "bend", "terms", "family", "tau", "rate"}
    assert posterior["tau"].shape == posterior["family"].shape == (2, 150, 2, 1)
    rate = posterior["rate"].values
    assert rate.mean() == pytest.approx(0.5, abs=5 * rate.std() / np.sqrt(rate.size))  # 60 of 120, Beta(61, 61)
    assert rate.std() == pytest.approx(stats.beta(61, 61).std(), rel=0.25)
    assert len(np.unique(posterior["family"])) > 2


def test_both_estimates_are_near_the_truth(fitted: bc.CopulaCalibrator) -> None:
    # the truth: logit q = 2 (x1 + x2) * 1.2 / 3 with x the log-odds of the scores, from their joint normal law
    scores, _ = simulate(1, 2000)
    q = expit(2 * 1.2 * logit(scores).sum(axis=1) / 3)
    posterior, estimate = fitted.predict_proba(scores)[:, 1], fitted.predict_point(scores)[:, 1]
    assert np.sqrt(((posterior - q) ** 2).mean()) < 0.12
    assert np.sqrt(((estimate - q) ** 2).mean()) < 0.2
    interval = fitted.predict_interval(scores)[:, 1]
    assert ((interval[:, 0] <= q) & (q <= interval[:, 1])).mean() > 0.5
    assert (interval[:, 0] <= posterior).all() and (posterior <= interval[:, 1]).all()


def test_order_of_rows_and_weights_change_no_estimate() -> None:
    scores, y = simulate(0, 50)
    order = np.random.default_rng(0).permutation(50)
    weight = np.arange(50) % 3
    at = simulate(1, 30)[0]

    def estimate(*rows: Any) -> np.ndarray:
        return bc.CopulaCalibrator(inference="point").fit(*rows).predict_proba(at)

    np.testing.assert_allclose(estimate(scores[order], y[order]), estimate(scores, y), rtol=1e-6)
    rows = np.repeat(np.arange(50), weight)
    np.testing.assert_allclose(estimate(scores, y, weight), estimate(scores[rows], y[rows]), rtol=1e-6)
    whole, weighted = (
        bc.CopulaCalibrator()._prepare(*data).data for data in ((scores[rows], y[rows], None), (scores, y, weight))
    )
    for name in whole:
        np.testing.assert_allclose(whole[name], weighted[name], rtol=1e-9, atol=1e-9)


def test_raw_scores_go_through_their_ranks() -> None:
    scores, y = simulate(0, 80)
    at = simulate(1, 40)[0]
    raw = bc.CopulaCalibrator("raw", "point").fit(scores, y).predict_proba(at)
    cubed = bc.CopulaCalibrator("raw", "point").fit(np.exp(3 * scores), y).predict_proba(np.exp(3 * at))
    # between calibration scores the ranks are lines, which bend with the scores
    np.testing.assert_allclose(cubed, raw, atol=0.05)
    np.testing.assert_allclose(
        bc.CopulaCalibrator("logit", "point").fit(logit(scores), y).predict_proba(logit(at)),
        bc.CopulaCalibrator("proba", "point").fit(scores, y).predict_proba(at),
        rtol=1e-9,
    )


@pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning")
@pytest.mark.parametrize("columns", [3, pytest.param(4, marks=pytest.mark.slow)])  # each compiles a model
def test_more_scores_can_be_fused_and_kept(columns: int, tmp_path: Path) -> None:
    scores, y = simulate(2, 70, columns)
    cal = bc.CopulaCalibrator(**QUICK, families=["gaussian", "clayton", "plackett"]).fit(scores, y)
    assert cal.idata_.posterior["tau"].shape[-1] == vine.pair_count(columns)
    assert set(np.unique(cal.idata_.posterior["family"])) <= {vine.NAMES.index(n) for n in cal.families}
    cal.save(tmp_path / "fit.nc")
    again = bc.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict_interval(scores), cal.predict_interval(scores))
    np.testing.assert_array_equal(again.predict_point(scores), cal.predict_point(scores))


@pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning")
def test_the_same_seed_gives_the_same_posterior(fitted: bc.CopulaCalibrator) -> None:
    scores, y = simulate(0, 120)
    again = bc.CopulaCalibrator(**QUICK).fit(scores, y)
    np.testing.assert_array_equal(again.predict_proba(scores), fitted.predict_proba(scores))
    np.testing.assert_array_equal(fitted.predict_proba(scores[:7]), fitted.predict_proba(scores)[:7])


def test_what_is_refused() -> None:
    scores, y = simulate(0, 40, 3)
    with pytest.raises(bc.ParameterValueError, match="families must hold one that has a form for 3 scores"):
        bc.CopulaCalibrator(families=["plackett"]).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match="families must be one of 'independence'"):
        bc.CopulaCalibrator(families=["gauss"]).fit(scores, y)
    with pytest.raises(bc.ParameterValueError, match="at least one"):
        bc.CopulaCalibrator(families=[]).fit(scores, y)
    with pytest.raises(bc.ScoreValueError, match="two or more"):
        bc.CopulaCalibrator().fit(scores[:, 0], y)


# faults that users of other packages reported: ties, equal classifiers, constant scores, the edge ---------------------


@pytest.mark.filterwarnings(
    "ignore::bayescal.ConvergenceWarning", "ignore:.*different values:bayescal.CalibrationWarning"
)
@pytest.mark.parametrize("inference", ["nuts", "point"])
def test_ties_do_not_depend_on_the_order_of_rows(inference: str, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    scores = rng.choice([1.0, 2.0, 5.0], (200, 2))  # trees with three leaves
    y = (rng.random(200) < 0.15 + 0.07 * scores.sum(axis=1)).astype(int)
    order = rng.permutation(200)
    settings = {**QUICK, "score_kind": "raw", "inference": inference}
    one = bc.CopulaCalibrator(**settings).fit(scores, y)
    two = bc.CopulaCalibrator(**settings).fit(scores[order], y[order])
    np.testing.assert_allclose(one._features(one._coordinate(scores, one._scale), one._scale),
                               two._features(two._coordinate(scores, two._scale), two._scale), rtol=1e-12)  # fmt: skip
    p = one.predict_proba(scores)
    assert np.isfinite(p).all() and ((p > 0.01) & (p < 0.99)).all()


@pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning")
def test_a_classifier_that_comes_twice_counts_once() -> None:
    # normal scores of sd 1.5 around -1 and 1: P(y = 1) is .412 at -.4 and .690 at .9, and counted twice .329 and .832
    rng = np.random.default_rng(5)
    y = np.arange(800) % 2
    x = 2.0 * y - 1 + 1.5 * rng.normal(size=800)
    twice = np.column_stack([x, x])
    cal = bc.CopulaCalibrator("logit", **QUICK).fit(twice, y)
    for found in (cal.predict_proba([[-0.4, -0.4], [0.9, 0.9]]), cal.predict_point([[-0.4, -0.4], [0.9, 0.9]])):
        np.testing.assert_allclose(found[:, 1], [0.412, 0.690], atol=0.07)


@pytest.mark.filterwarnings("ignore::bayescal.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::bayescal.CalibrationWarning")
@pytest.mark.parametrize("inference", ["nuts", "point"])
def test_hard_data_give_finite_probabilities(inference: str) -> None:
    scores, y = simulate(0, 40)
    constant = np.column_stack([scores[:, 0], np.full(40, 0.5)])
    one_class_constant = np.where((y == 0)[:, None], 0.5, scores)
    ends = scores.round()
    separated = np.column_stack([y, scores[:, 1]])
    at = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1e-9, 0.5], [0.5, 0.5]])
    for rows, labels in (
        (constant, y),
        (one_class_constant, y),
        (ends, y),
        (separated, y),
        (scores, np.zeros(40, dtype=int)),
        (scores[:2], np.array([0, 1])),
    ):
        cal = bc.CopulaCalibrator(**{**QUICK, "draws": 30, "tune": 100}, inference=inference).fit(rows, labels)
        p = cal.predict_proba(at)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
