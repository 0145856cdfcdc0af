"""The generative CASIMAC classifier: its density beside the specification's, its posterior by other means, answers."""

import importlib.util
import pickle
import warnings
from pathlib import Path
from types import ModuleType

import arviz as az
import numpy as np
import pytest
from pytensor.compile.mode import Mode
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.utils.estimator_checks import check_estimator

import bayescal as bc
from bayescal.casimac import generative
from bayescal.casimac.cones import TABLE, cone_probabilities, integration_step
from bayescal.casimac.generative import Process, log_cone, log_density
from bayescal.casimac.latent import KERNELS
from bayescal.casimac.settings import GenerativeCASIMACPriors
from bayescal.casimac.simplex import simplex_vertices

RUN = Mode(linker="py", optimizer="fast_run")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"models_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SPECIFICATION = load(Path(__file__).parents[1] / "models" / "casimac_generative.py")


def case(rng: np.random.Generator, classes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features, and column numbers of labels of which each comes."""
    x = rng.normal(size=(n, 2))
    return (x - x.mean(axis=0)) / x.std(axis=0), rng.permutation(np.arange(n) % classes)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_density_is_the_specifications(classes: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, y = case(rng, classes, 10)
    process, vertices = Process(x, "matern52", GenerativeCASIMACPriors()), simplex_vertices(classes)
    target = process.target(y, vertices)
    logp = SPECIFICATION.model(x, y).compile_logp(mode=RUN)
    axes = np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]
    turn = np.linalg.lstsq(vertices, np.sqrt(classes / (classes - 1)) * axes, rcond=None)[0]  # of the latent space
    difference = []
    for _ in range(6):
        t, log_amplitude, raw = rng.normal(), rng.normal(), rng.normal(size=(len(x), classes - 1))
        found = log_density(np.concatenate([[t, log_amplitude], raw.ravel()]), *vars(target).values())[0]
        point = {"length_scale_log__": process.center() + t, "amplitude_log__": log_amplitude, "raw": raw @ turn}
        difference.append(found - float(logp(point)))
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=3e-4)  # the factors are interpolated


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_is_that_of_differences(classes: int, kernel: str, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, y = case(rng, classes, 12)
    target = Process(x, kernel, GenerativeCASIMACPriors()).target(y, simplex_vertices(classes))
    point, data = rng.normal(size=2 + len(x) * (classes - 1)), tuple(vars(target).values())
    step = 1e-5
    expected = [
        (log_density(point + h, *data)[0] - log_density(point - h, *data)[0]) / (2 * step)
        for h in step * np.eye(len(point))
    ]
    np.testing.assert_allclose(log_density(point, *data)[1], expected, rtol=1e-5, atol=1e-5)


def test_beyond_the_grid_only_the_prior_falls(random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, y = case(rng, 3, 8)
    data = tuple(vars(Process(x, "rbf", GenerativeCASIMACPriors()).target(y, simplex_vertices(3))).values())
    end, far = rng.normal(size=18), np.zeros(18)
    end[0], far[0] = -generative.REACH, -1.0
    value, gradient = log_density(end + far, *data)
    assert value - log_density(end, *data)[0] == pytest.approx(-0.5 * (4.5**2 - 3.5**2), abs=1e-9)
    assert gradient[0] == pytest.approx(4.5)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_probability_of_a_cone(classes: int, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    gradient = np.empty(classes)
    for spread in (0.5, 3.0, 6.0):
        a = spread * rng.normal(size=classes)
        for own in range(classes):
            others = np.delete(a, own)
            expected = quad(
                lambda v, at=a[own], others=others: norm.pdf(v - at) * ndtr(v - others).prod(),
                a.max() - 13,
                a.max() + 13,
                epsabs=0,
                epsrel=1e-10,
                limit=200,
            )[0]
            found = log_cone(a, own, integration_step(classes), TABLE, gradient)
            assert found == pytest.approx(np.log(expected), abs=3e-6 if expected > 1e-20 else 0.2)
            assert gradient.sum() == pytest.approx(0, abs=1e-12)  # a common shift changes nothing
    a[:] = 0.0
    a[0] = generative.FARTHEST + 1
    assert log_cone(a, 1, integration_step(classes), TABLE, gradient) == -np.inf


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_factors_between_nodes(kernel: str, random_seed: int) -> None:
    rng = np.random.default_rng(random_seed)
    x, y = case(rng, 2, 40)
    process = Process(x, kernel, GenerativeCASIMACPriors())
    target = process.target(y, simplex_vertices(2))
    for t in rng.uniform(-3.5, 3.5, 5):
        lower = np.zeros((40, 40))
        lower[np.tril_indices(40)] = generative.interpolate(t, target.factors, target.slopes, generative.REACH)[0]
        k = process.correlation_to(x, np.exp(process.center() + t)) + generative.JITTER * np.eye(40)
        assert np.abs(lower @ lower.T - k).max() < 3e-4


def test_posterior_is_that_of_prior_draws_weighed_by_the_labels(random_seed: int) -> None:
    """Latents of cases and of new rows from the prior, weights from the labels: no part of it is the library's."""
    rng = np.random.default_rng(random_seed)
    x, y = case(rng, 3, 5)
    new = rng.normal(size=(4, 2))
    clf = bc.GenerativeCASIMACClassifier(random_state=random_seed, standardize=False, draws=1500).fit(x, y)
    both, size = np.concatenate([x, new]), 60_000
    distance = np.linalg.norm(both[:, None] - both, axis=-1)
    middle = np.median(distance[:5, :5][np.triu_indices(5, 1)])
    r = np.sqrt(5) * distance / (middle * np.exp(rng.normal(size=size)))[:, None, None]
    factor = np.linalg.cholesky((1 + r + r**2 / 3) * np.exp(-r) + 1e-6 * np.eye(9))
    f = np.abs(3 * rng.normal(size=size))[:, None, None] * factor @ rng.normal(size=(size, 9, 2))
    noisy = (f + rng.normal(size=f.shape)) @ clf.vertices_.T
    p = cone_probabilities(f.reshape(-1, 2), np.ones(size * 9), clf.vertices_).reshape(size, 9, 3)
    weight = np.take_along_axis(p[:, :5], y[None, :, None], axis=2)[..., 0].prod(axis=1)
    weight /= weight.sum()
    effective = 1 / (weight**2).sum()
    assert effective > 500
    expected = np.tensordot(weight, p[:, 5:], axes=1)
    error = np.sqrt(np.tensordot(weight, (p[:, 5:] - expected) ** 2, axes=1) * (1 / effective + 1 / 200))
    assert (np.abs(clf.predict_proba(new) - expected) < 4.5 * error).all()
    won = noisy[:, 5:].argmax(axis=2)  # and the same by simulated labels
    shares = np.stack([weight @ (won == k) for k in range(3)], axis=1)
    np.testing.assert_allclose(shares, expected, rtol=0, atol=5 * np.sqrt(0.25 / effective))
    latent = clf.idata_.posterior["latent"].values.reshape(-1, 5, 2)
    spread = np.sqrt(np.tensordot(weight, f[:, :5] ** 2, axes=1))
    off = np.abs(latent.mean(axis=0) - np.tensordot(weight, f[:, :5], axes=1))
    assert (off < 5 * spread * np.sqrt(1 / effective + 1 / 1000)).all()


@pytest.fixture(scope="module")
def fitted() -> tuple[bc.GenerativeCASIMACClassifier, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    x, y = case(rng, 3, 30)
    labels = np.array(["ape", "bee", "cow"])[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)  # so few draws are not what is tested
        clf = bc.GenerativeCASIMACClassifier(random_state=3, draws=100, tune=150).fit(2.5 * x + 1, labels)
    return clf, 2.5 * x + 1, labels


def test_new_rows_follow_the_conditional_law(fitted: tuple, random_seed: int) -> None:
    clf = fitted[0]
    predictor, rows = clf._fit.predictor, np.random.default_rng(random_seed).normal(size=(5, 2))
    for i in (0, 150):
        mean, left = predictor.at(i, rows)
        both = np.concatenate([predictor.process.cases, rows])
        r = np.linalg.norm(both[:, None] - both, axis=-1) / predictor.parts.length[i]
        k = KERNELS["matern52"](r) + 1e-6 * np.eye(len(both))
        solved = np.linalg.solve(k[:30, :30], k[:30, 30:])
        np.testing.assert_allclose(mean, solved.T @ predictor.parts.latent[i], rtol=1e-6, atol=1e-6)
        open_ = predictor.parts.amplitude[i] ** 2 * np.diag(k[30:, 30:] - k[30:, :30] @ solved)
        np.testing.assert_allclose(left, open_, rtol=1e-6, atol=1e-8)


def test_answers_have_their_shapes_and_agree(fitted: tuple) -> None:
    clf, x, _ = fitted
    p, draws, ends = clf.predict_proba(x), clf.proba_draws(x), clf.predict_interval(x, 0.9)
    assert p.shape == (30, 3) and ends.shape == (30, 3, 2) and draws.dims == ("chain", "draw", "obs", "class")
    np.testing.assert_allclose(p.sum(axis=1), 1)
    values = draws.values.reshape(-1, 30, 3)
    np.testing.assert_allclose(ends, np.moveaxis(np.quantile(values, [0.05, 0.95], axis=0), 0, -1), rtol=1e-9)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - p) < 5 * error).all()
    np.testing.assert_array_equal(clf.predict(x), clf.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(clf.latent(x).mean(("chain", "draw")), clf.predict_latent(x), atol=0.6)
    np.testing.assert_array_equal(clf.predict_proba(x[3:5]), p[3:5])  # whatever the rows beside
    np.testing.assert_array_equal(clf.proba_draws(x[3:5]).values, draws.values[:, :, 3:5])


def test_arviz_reads_the_posterior(fitted: tuple) -> None:
    clf, _, y = fitted
    tree = clf.idata_
    assert tree.posterior["latent"].dims == ("chain", "draw", "obs", "latent_axis")
    np.testing.assert_array_equal(clf.classes_[tree.observed_data["y"].values], y)
    latent, given = tree.posterior["latent"].values[1, 7], tree.log_likelihood["y"].values[1, 7]
    p = cone_probabilities(latent, np.ones(30), clf.vertices_)
    np.testing.assert_allclose(given, np.log(p[np.arange(30), tree.observed_data["y"].values]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each case has a latent of its own, and k may be large
        assert az.loo(tree).elpd < 0
    assert {"length_scale", "amplitude", "latent[59]"} <= set(clf.diagnostics_.index)


def test_files_and_copies_answer_alike(fitted: tuple, tmp_path: Path) -> None:
    clf, x, _ = fitted
    clf.save(tmp_path / "fit.nc")
    for other in (bc.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(clf))):
        assert isinstance(other, bc.GenerativeCASIMACClassifier)
        np.testing.assert_array_equal(other.predict_proba(x), clf.predict_proba(x))
        np.testing.assert_array_equal(other.predict_interval(x), clf.predict_interval(x))
        assert other.get_params() == clf.get_params()
        assert other.diagnostics_.attrs == clf.diagnostics_.attrs
        assert other.idata_.posterior.identical(clf.idata_.posterior)


def test_plot_simplex_draws_it(fitted: tuple) -> None:
    clf, x, y = fitted
    assert len(bc.plot_simplex(clf, x, y).get_legend().get_texts()) == 3
    with pytest.raises(bc.ParameterValueError, match="GenerativeCASIMACClassifier computes none"):
        bc.plot_simplex(clf, x, y, latents="transformation")


def test_a_seed_says_it_all() -> None:
    x, y = case(np.random.default_rng(2), 2, 12)
    short = {"draws": 60, "tune": 60, "chains": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        one = [bc.GenerativeCASIMACClassifier(random_state=4, cores=c, **short).fit(x, y) for c in (1, 2)]
        other = bc.GenerativeCASIMACClassifier(random_state=5, **short).fit(x, y)
    np.testing.assert_array_equal(one[0].predict_proba(x), one[1].predict_proba(x))
    assert not np.array_equal(one[0].predict_proba(x), other.predict_proba(x))


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"kernel": "cubic"}, bc.ParameterValueError, "kernel must be one of"),
        ({"priors": {"amplitude_sd": -1.0}}, bc.ParameterValueError, "amplitude_sd"),
        ({"draws": 0}, bc.ParameterValueError, "draws"),
        ({"draws": 100_000_000}, bc.ScoreValueError, "would take about"),
    ],
)
def test_settings_are_refused_in_words(settings: dict, error: type[Exception], says: str) -> None:
    x, y = case(np.random.default_rng(0), 2, 10)
    with pytest.raises(error, match=says):
        bc.GenerativeCASIMACClassifier(**settings).fit(x, y)


def test_odd_data_are_fitted_or_refused(random_seed: int) -> None:
    x, y = case(np.random.default_rng(random_seed), 2, 10)
    short = bc.GenerativeCASIMACClassifier(random_state=random_seed, draws=60, tune=60, chains=2)
    with pytest.raises(bc.LabelValueError, match="two classes"):
        short.fit(x, np.zeros(10))
    with pytest.raises(ValueError, match="NaN"):
        short.fit(np.where(x > 1, np.nan, x), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.ConvergenceWarning)
        for rows in (np.zeros((10, 2)), np.repeat(x[:5], 2, axis=0), 1e8 * x):  # constant, coinciding, huge
            p = short.fit(rows, y).predict_proba(rows)
            assert np.isfinite(p).all()
            if not rows.any():
                assert np.ptp(p[:, 0]) < 1e-12


@pytest.mark.slow
def test_scikit_learn_accepts_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(bc.GenerativeCASIMACClassifier(draws=30, tune=50, chains=2), on_skip=None)
    skipped = [r["check_name"] for r in results if r["status"] == "skipped"]
    assert (len(results), skipped) == (55, ["check_array_api_input"])
    assert all(r["status"] == "passed" for r in results if r["check_name"] not in skipped)
