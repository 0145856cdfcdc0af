"""A length-scale for each feature: density, mode, draws, what a fit offers, and that useless features are found."""

import importlib.util
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytensor.compile.mode import Mode
from scipy.integrate import trapezoid
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import invgamma

import bayescal as bc
from bayescal.casimac.features import FeatureProcess, build, noise_law, sample_posterior
from bayescal.casimac.latent import KERNELS, LatentProcess
from bayescal.casimac.settings import CASIMACPriors
from bayescal.inference.sampling import SamplerSettings
from bayescal.validation import quiet

RUN = Mode(linker="py", optimizer="fast_run")  # all rewrites of the default mode, nothing compiled
FIXED = {"gamma": 0.9, "k_alpha": 1, "k_beta": 1, "spread": 1}
SHORT = {"draws": 60, "tune": 100, "chains": 2}


def specification() -> Any:
    path = Path(__file__).parents[1] / "models" / "casimac.py"
    spec = importlib.util.spec_from_file_location("models_casimac", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def process_of(x: np.ndarray, kernel: str = "matern52", **priors: float) -> FeatureProcess:
    return FeatureProcess(cdist(x, x), KERNELS[kernel], CASIMACPriors(**priors), x)


def case(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Three classes by the first of three features; the others are useless."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    return np.column_stack([3 * codes + 0.3 * rng.normal(size=n), rng.normal(size=(n, 2))]), codes


def fit(x: Any, y: Any, **settings: Any) -> bc.CASIMACClassifier:
    """A fit whose draws are too few for the gate, which is not what is tested."""
    with quiet(bc.ConvergenceWarning):
        return bc.CASIMACClassifier(length_scales="each", random_state=3, **settings).fit(x, y)


# The density


def test_density_is_that_of_the_specification(random_seed: int) -> None:
    # the shared length-scale is integrated out here, and the signal variance by its inverse gamma law
    rng = np.random.default_rng(random_seed)
    x, z = rng.normal(size=(10, 2)), rng.normal(size=(10, 2))
    priors = CASIMACPriors(0.7, 0.4, -1.5, 1.2, 3.0, 0.8)
    process = process_of(x, **asdict(priors))
    target = process.target(z[None], np.ones(1))
    given = asdict(priors)
    s = given["feature_log_sd"]
    logp = specification().model(x, z, **given).compile_logp(mode=RUN)
    shared = process.center + 0.7 * np.linspace(-7, 7, 141)
    difference = []
    for _ in range(5):
        log_length, log_noise, log_signal = rng.normal(size=2) * 0.5 + process.center, rng.normal(), rng.normal()
        joint = [
            float(
                logp(
                    {
                        "length_scale_log__": np.asarray(at),
                        "relative": (log_length - at) / s,
                        "noise_ratio_log__": np.asarray(log_noise),
                        "signal_variance_log__": np.asarray(log_signal),
                    }
                )
            )
            for at in shared
        ]
        top = max(joint)
        integrated = top + np.log(trapezoid(np.exp(np.array(joint) - top), shared))
        _, log_scale = process.log_density(log_length, log_noise, z)
        law = invgamma.logpdf(np.exp(log_signal), process.shape(z), scale=np.exp(log_scale)) + log_signal
        difference.append(integrated - law - target.at(np.append(log_length, log_noise))[0])
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_compiled_density_is_that_of_the_process_with_its_gradient(kernel: str, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, zs = rng.normal(size=(15, 3)), rng.normal(size=(2, 15, 2))
    process, weight = process_of(x, kernel), np.array([0.3, 0.7])
    target = process.target(zs, weight)
    difference = []
    for _ in range(5):
        point = np.append(process.center + 0.5 * rng.normal(size=3), rng.normal() - 2)
        value, gradient = target.at(point)
        each = [process.log_density(point[:-1], point[-1], z)[0] for z in zs]
        difference.append(value - weight @ each)
        steps = 1e-5 * np.eye(4)
        np.testing.assert_allclose(
            gradient, [(target.at(point + h)[0] - target.at(point - h)[0]) / 2e-5 for h in steps], rtol=1e-5, atol=1e-5
        )
    np.testing.assert_allclose(difference, 0, rtol=0, atol=1e-8)


def test_prior_is_that_of_a_shared_length_scale_and_departures(random_seed: int) -> None:
    x = np.random.default_rng(random_seed).normal(size=(8, 4))
    process = process_of(x, length_scale_log_sd=0.8, feature_log_sd=0.3)
    precision = -np.array([[_second(process, i, j) for j in range(4)] for i in range(4)])
    np.testing.assert_allclose(np.linalg.inv(precision), 0.8**2 + 0.3**2 * np.eye(4), rtol=1e-5)


def _second(process: FeatureProcess, i: int, j: int) -> float:
    """Second derivative of the log prior, a quadratic form, by differences."""
    e, at = np.eye(4), np.full(4, process.center)
    middle = process.priors.noise_ratio_log_mean
    signs = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
    return sum(sign * process.log_prior(at + a * e[i] + b * e[j], middle) for a, b, sign in signs) / 4


def test_equal_length_scales_are_the_shared_process(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, z, new = rng.normal(size=(12, 3)), rng.normal(size=(12, 1)), rng.normal(size=(5, 3))
    each, shared = process_of(x), LatentProcess(cdist(x, x), KERNELS["matern52"], CASIMACPriors())
    same = np.full(3, 0.4)
    assert each.log_density(same, -2.0, z)[1] == pytest.approx(shared.log_density(0.4, -2.0, z)[1], rel=1e-12)
    np.testing.assert_allclose(each.correlation_to(new, same), shared.correlation_to(cdist(new, x), 0.4), rtol=1e-12)


def test_singular_covariance_has_no_density() -> None:
    x = np.zeros((5, 2))
    x[4] = 1
    target = process_of(x).target(np.ones((1, 5, 1)), np.ones(1))
    value, gradient = target.at(np.array([0.0, 0.0, -60.0]))
    assert value == -np.inf and (gradient == 0).all()


def test_model_has_the_density_and_its_gradient(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, zs = rng.normal(size=(12, 2)), rng.normal(size=(2, 12, 1))
    target = process_of(x).target(zs, np.ones(2))
    mode = target.mode()
    factor = target.factor(mode)
    model = build(mode=mode, factor=factor, **vars(target))
    logp, slope = model.compile_logp(mode=RUN), model.compile_dlogp(mode=RUN)
    for u in rng.normal(size=(5, 3)):
        value, gradient = target.at(mode + factor @ u)
        assert float(logp({"u": u})) == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(slope({"u": u}), factor.T @ gradient, rtol=1e-8, atol=1e-10)


# Mode and draws


def test_mode_is_the_top(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x = rng.normal(size=(40, 3))
    z = x[:, :1] + 0.5 * rng.normal(size=(40, 1))
    target = process_of(x).target(z[None], np.ones(1))
    mode = target.mode()
    assert np.abs(target.at(mode)[1]).max() < 0.01
    top = target.at(mode)[0]
    assert all(target.at(mode + 0.1 * rng.normal(size=4))[0] < top + 1e-4 for _ in range(20))
    # u is about standard normal there: a tenth of a unit along any axis costs 0.1^2 / 2
    factor = target.factor(mode)
    lost = [top - 0.5 * sum(target.at(mode + h * column)[0] for h in (0.1, -0.1)) for column in factor.T]
    np.testing.assert_allclose(lost, 0.005, rtol=0.05)


def test_noise_is_drawn_from_its_law(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, z = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    process = process_of(x)
    log_length = np.array([0.5, 0.2])
    grid, law = noise_law(process, process.spectrum(log_length), z)
    exact = np.array([process.log_density(log_length, at, z)[0] for at in grid])
    np.testing.assert_allclose(law - law.max(), exact - exact.max(), rtol=0, atol=1e-8)
    assert law[0] < law.max() - 7 and law[-1] < law.max() - 7  # the grid holds all of it


def test_draws_have_the_moments_of_the_posterior(random_seed: int) -> None:
    # one transformation and one feature: quadrature over its length-scale and the noise is the reference
    rng = np.random.default_rng(random_seed)
    x = rng.normal(size=(25, 1))
    z = np.sin(2 * x) + 0.3 * rng.normal(size=(25, 1))
    process = process_of(x)
    settings = SamplerSettings(draws=1000, tune=300, chains=4, seed=random_seed)
    found = sample_posterior(process, z[None], np.ones(1), settings, rng)
    assert found.convergence.verdict == "passed", found.convergence.message
    a = process.center + np.linspace(-4, 4, 81)
    b = process.priors.noise_ratio_log_mean + np.linspace(-9, 9, 121)
    table = np.array([[process.log_density(np.array([s]), t, z)[0] for t in b] for s in a])
    weight = np.exp(table - logsumexp(table))
    for name, marginal, values in (("length_scale", weight.sum(axis=1), a), ("noise_ratio", weight.sum(axis=0), b)):
        draws = np.log(found.posterior[name]).ravel()
        mean = marginal @ values
        sd = np.sqrt(marginal @ (values - mean) ** 2)
        ess = found.convergence.table.ess_bulk[f"{name}[0]" if name == "length_scale" else name]
        assert abs(draws.mean() - mean) < 5 * sd / np.sqrt(ess)
        assert draws.std() == pytest.approx(sd, rel=0.15)


# What a fit offers


@pytest.mark.parametrize("inference", ["point", "nuts"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_useless_features_have_longer_length_scales(kernel: str, inference: str, random_seed: int) -> None:
    x, codes = case(random_seed)
    clf = fit(x, codes, kernel=kernel, inference=inference, **FIXED, **SHORT)
    log_length = clf._fit.predictor.parts.log_length.mean(axis=0)
    assert log_length[0] < log_length[1:].min()
    assert clf.score(x, codes) > 0.9
    p = clf.predict_proba(x)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(x[[4]]), p[[4]], rtol=0, atol=1e-10)


def test_posterior_has_a_length_scale_for_each_feature() -> None:
    pd = pytest.importorskip("pandas")
    x, codes = case(0)
    clf = fit(pd.DataFrame(x, columns=["a", "b", "c"]), codes, **SHORT)
    length_scale = clf.idata_.posterior["length_scale"]
    assert length_scale.dims == ("chain", "draw", "feature") and length_scale["feature"].values.tolist() == list("abc")
    assert {f"length_scale[{d}]" for d in range(3)} <= set(clf.diagnostics_.index)
    assert clf.proba_draws(pd.DataFrame(x, columns=["a", "b", "c"])).dims == ("chain", "draw", "obs", "class")


def test_weights_are_those_of_the_shared_length_scale() -> None:
    x, codes = case(1)
    each = fit(x, codes, inference="point").transformations_
    shared = bc.CASIMACClassifier(inference="point").fit(x, codes).transformations_
    assert each.equals(shared) and each.attrs == shared.attrs


@pytest.mark.parametrize("inference", ["point", "nuts"])
def test_fit_survives_file_and_pickle(inference: str, tmp_path: Path) -> None:
    x, codes = case(2)
    clf = fit(x, codes, inference=inference, **SHORT)
    clf.save(tmp_path / "fit.nc")
    for again in (bc.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(clf))):
        assert again.length_scales == "each"
        np.testing.assert_array_equal(again.predict_proba(x), clf.predict_proba(x))
        np.testing.assert_array_equal(again.transform(x + 0.1), clf.transform(x + 0.1))
        if inference == "nuts":
            np.testing.assert_array_equal(again.predict_interval(x), clf.predict_interval(x))
            assert again.idata_.identical(clf.idata_)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"length_scales": "both"}, "length_scales must be one of"),
        ({"metric": lambda a, b: float(np.abs(a - b).sum())}, "needs a metric by name"),
        ({"kernel": lambda a, b: np.exp(-cdist(a, b))}, "needs a kernel by name"),
        ({"regressor": object()}, "whose place the regressor takes"),
    ],
)
def test_what_has_no_length_scales_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(bc.ParameterValueError, match=says):
        bc.CASIMACClassifier(**{"length_scales": "each", **FIXED, "inference": "point", **settings}).fit(*case(0))
