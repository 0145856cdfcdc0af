"""Contract: sampling. Seeds, cores, threads, processes, interruptions, and what must be as it was afterwards."""

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import threadpoolctl

import bayescal as bc
from bayescal.calibrators.base import Calibrator
from bayescal.inference.sampling import compiled_structures

Make = Callable[..., Calibrator]
DrawsOf = Callable[[Calibrator], np.ndarray]


@pytest.fixture
def draws_of(grid: np.ndarray) -> DrawsOf:
    """The draws of a calibrator at the test's grid."""
    return lambda cal: cal.proba_draws(grid).to_numpy()


# Seeds


@pytest.mark.variants("fewest scores")
def test_a_generator_goes_on(make_posterior: Make, cases, draws_of: DrawsOf, random_seed: int) -> None:
    generator = np.random.default_rng(random_seed)
    first, second = (draws_of(make_posterior(random_state=generator).fit(*cases)) for _ in range(2))
    assert (first != second).any()
    again = make_posterior(random_state=np.random.default_rng(random_seed)).fit(*cases)
    np.testing.assert_array_equal(draws_of(again), first)


@pytest.mark.parametrize("kind", [np.random.RandomState, np.int64, np.uint8, int])
def test_random_state_of_any_kind(make_one_posterior: Make, cases, draws_of: DrawsOf, kind: type) -> None:
    one, two = (draws_of(make_one_posterior(random_state=kind(42)).fit(*cases)) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.variants("fewest scores")
def test_random_state_none_differs_from_fit_to_fit(make_posterior: Make, cases, draws_of: DrawsOf) -> None:
    one, two = (draws_of(make_posterior(random_state=None).fit(*cases)) for _ in range(2))
    assert (one != two).any()


@pytest.mark.variants("fewest scores")
def test_draws_do_not_depend_on_the_cores(make_posterior: Make, posterior, cases, draws_of: DrawsOf) -> None:
    for cores in (1, 2, 8):
        np.testing.assert_array_equal(draws_of(make_posterior(cores=cores).fit(*cases)), draws_of(posterior))


# What is left alone


def leaves_the_global_state_alone(use: Callable[[], object]) -> None:
    def state() -> tuple[str, dict, list, dict, dict, int]:
        return (
            str(np.random.get_state(legacy=False)),  # noqa: NPY002 - the global state is what is watched
            dict(matplotlib.rcParams),
            list(warnings.filters),
            np.geterr(),
            dict(os.environ),
            threading.active_count(),
        )

    before = state()
    use()
    assert state() == before


def test_drawing_leaves_the_global_state_alone(make_posterior: Make, cases, grid: np.ndarray) -> None:
    leaves_the_global_state_alone(lambda: make_posterior(random_state=None).fit(*cases).predict_interval(grid))


def test_estimating_leaves_the_global_state_alone(make_point: Make, cases, grid: np.ndarray) -> None:
    leaves_the_global_state_alone(lambda: make_point().fit(*cases).predict_proba(grid))


@pytest.mark.variants("fewest scores")
def test_blas_threads_are_limited_and_given_back(make_posterior: Make, cases) -> None:
    def blas() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    during: list[list[int]] = []
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        make_posterior(progressbar=lambda done, total, divergences: during.append(blas())).fit(*cases)
        assert set(blas()) == {2}
    assert during
    assert {count for counts in during for count in counts} == {1}


@pytest.mark.variants("fewest scores")
def test_progress_is_reported(make_posterior: Make, cases) -> None:
    calls: list[tuple[int, int, int]] = []
    cal = make_posterior(progressbar=lambda *numbers: calls.append(numbers)).fit(*cases)
    assert calls
    total = cal.chains * (cal.draws + cal.tune)
    assert {call[1] for call in calls} == {total}
    assert all(0 <= done <= total for done, _, _ in calls)


def test_a_second_fit_compiles_nothing(make_posterior: Make, posterior, cases, other_cases, other_kind: str) -> None:
    before = compiled_structures()
    make_posterior().fit(*other_cases, sample_weight=np.linspace(0.5, 1.5, len(other_cases.y)))
    make_posterior(score_kind=other_kind, draws=20).fit(cases.scores[:45], cases.y[:45])
    assert compiled_structures() == before


# Few draws


def test_one_chain_is_not_assessed(make_posterior: Make, cases) -> None:
    with pytest.warns(bc.ConvergenceWarning, match="not assessed") as caught:
        cal = make_posterior(chains=1, draws=300).fit(*cases)
    diagnostics = cal.diagnostics_
    assert diagnostics.attrs["verdict"] == "not assessed"
    assert "chain" in str(caught[0].message)
    assert diagnostics["r_hat"].isna().all()
    assert (diagnostics[["ess_bulk", "ess_tail"]] > 0).all(axis=None)


@pytest.mark.variants("fewest scores")
@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_hardly_any_draws(make_posterior: Make, cases, grid: np.ndarray, chains: int, draws: int) -> None:
    with pytest.warns(bc.ConvergenceWarning, match="not assessed"):
        cal = make_posterior(chains=chains, draws=draws).fit(*cases)
    assert cal.diagnostics_.attrs["verdict"] == "not assessed"
    assert "nan" not in cal.diagnostics_.attrs["message"]
    lower, upper = cal.predict_interval(grid)[:, 1].T
    assert (lower <= upper).all()
    assert cal.idata_.posterior.sizes["draw"] == draws


# Other processes


# no main guard, and children would be spawned: a sampler that starts processes runs this script once more in each
INTERRUPTED = """
import multiprocessing
multiprocessing.set_start_method("spawn")
import os, signal, sys, threading, time, warnings
import numpy as np
from bayescal.registry import CALIBRATORS
from bayescal.validation import ConvergenceWarning
warnings.simplefilter("ignore", ConvergenceWarning)
name, settings, folder = sys.argv[1], eval(sys.argv[2]), sys.argv[3]
scores, y = np.load(folder + "/scores.npy"), np.load(folder + "/y.npy")
cal = CALIBRATORS[name].load()(**settings).fit(scores, y)
draws, state, threads = cal.proba_draws(scores).to_numpy(), dict(vars(cal)), threading.active_count()
np.save(folder + "/draws.npy", draws)
cal.set_params(draws=1_000_000)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.perf_counter()
try:
    cal.fit(scores[::-1], y)
except KeyboardInterrupt:
    print("interrupted")
took = time.perf_counter() - start
cal.set_params(draws=settings["draws"])
time.sleep(0.2)
cpu = time.process_time()
time.sleep(0.5)
print("soon", took < 30)
print("idle", time.process_time() - cpu < 0.25)
print("threads", threading.active_count() == threads)
print("state", vars(cal).keys() == state.keys() and all(vars(cal)[k] is v for k, v in state.items()))
print("draws", bool((cal.proba_draws(scores).to_numpy() == draws).all()))
again = CALIBRATORS[name].load()(**settings).fit(scores, y)
print("fits again", bool((again.proba_draws(scores).to_numpy() == draws).all()))
"""


def fit_elsewhere(script: str, cal: Calibrator, cases, folder: Path) -> list[str]:
    """Run `script` on the settings and rows of a fit, in a process of its own; what it prints."""
    np.save(folder / "scores.npy", cases.scores)
    np.save(folder / "y.npy", cases.y)
    (folder / "script.py").write_text(script)
    settings = {name: getattr(cal, name) for name in ("draws", "tune", "chains", "random_state")}
    command = [sys.executable, "script.py", cal._name, repr(settings), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def fresh_and_interrupted(make: Make, cases, folder: Path) -> None:
    # compiled there for these rows, here for those of the shared fits: what was compiled first must not matter
    here = make().fit(*cases)
    printed = fit_elsewhere(INTERRUPTED, here, cases, folder)
    as_before = ["soon True", "idle True", "threads True", "state True", "draws True", "fits again True"]
    assert printed == ["interrupted", *as_before]
    np.testing.assert_array_equal(np.load(folder / "draws.npy"), here.proba_draws(cases.scores).to_numpy())


def test_a_fresh_process_draws_the_same_and_can_be_interrupted(make_one_posterior, other_cases, tmp_path: Path) -> None:
    fresh_and_interrupted(make_one_posterior, other_cases, tmp_path)


@pytest.mark.slow
def test_each_draws_the_same_in_a_fresh_process_and_can_be_interrupted(
    make_posterior: Make, posterior: Calibrator, other_cases, tmp_path: Path
) -> None:
    fresh_and_interrupted(make_posterior, other_cases, tmp_path)


def other_priors(cal: Calibrator) -> dict:
    """Settings with another first mean, for each member where it has members."""
    if hasattr(cal, "members_"):
        return {name: other_priors(member) for name, member in cal.members_.items()}
    return {next(name for name, _, _ in cal._priors.describe() if name.endswith("mean")): 1.0}


def test_priors_of_an_earlier_fit_do_not_matter(make_posterior: Make, posterior, cases, draws_of: DrawsOf) -> None:
    # the compiled model is the same: its chains must start where these priors are, not those of the fit before
    priors = other_priors(posterior)
    assert (draws_of(make_posterior(priors=priors).fit(*cases)) != draws_of(posterior)).any()
    np.testing.assert_array_equal(draws_of(make_posterior().fit(*cases)), draws_of(posterior))


WORKERS = """
import multiprocessing, sys
import joblib
import numpy as np
from bayescal.registry import CALIBRATORS
from bayescal.validation import ConvergenceWarning
import warnings

def fit(k):
    warnings.simplefilter("ignore", ConvergenceWarning)
    cal = CALIBRATORS[sys.argv[1]].load()(**eval(sys.argv[2]))
    folder = sys.argv[3]
    cal.fit(np.load(folder + "/scores.npy"), np.load(folder + "/y.npy"))
    return cal.proba_draws(np.load(folder + "/scores.npy")).to_numpy()

if __name__ == "__main__":
    here = fit(0)  # what the sampler's threads held before the fork must not hang the children
    with multiprocessing.get_context("fork").Pool(2) as pool:  # daemonic workers
        forked = pool.map(fit, range(2))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.map(fit, range(1))
    spawned += joblib.Parallel(n_jobs=2)(joblib.delayed(fit)(k) for k in range(2))
    print([bool((found == here).all()) for found in forked + spawned])
    np.save(sys.argv[3] + "/draws.npy", here)
"""


@pytest.mark.slow
def test_workers_draw_the_same(make_one_posterior: Make, cases, tmp_path: Path) -> None:
    here = make_one_posterior().fit(*cases)
    assert fit_elsewhere(WORKERS, here, cases, tmp_path) == [str([True] * 5)]
    np.testing.assert_array_equal(np.load(tmp_path / "draws.npy"), here.proba_draws(cases.scores).to_numpy())


# Without nutpie


def without_nutpie(make: Make, cases, grid: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"draws": 180, "tune": 300}  # fewer than 400 draws: one run, whatever the gate says
    reference = make(**settings).fit(*cases)
    monkeypatch.setitem(sys.modules, "nutpie", None)
    with pytest.warns(UserWarning, match="nutpie cannot be imported"):
        other = make(**settings).fit(*cases)
    assert set(other.idata_.posterior.data_vars) == set(reference.idata_.posterior.data_vars)
    a, b = (cal.proba_draws(grid[[10, 50, 90]]).to_numpy()[..., 1] for cal in (reference, other))
    assert (a != b).any()
    difference = a.mean(axis=(0, 1)) - b.mean(axis=(0, 1))
    assert (np.abs(difference) <= 4 * np.hypot(standard_error(a), standard_error(b))).all()


def test_pymc_takes_over_where_nutpie_is_missing(make_one_posterior, cases, grid, monkeypatch) -> None:
    without_nutpie(make_one_posterior, cases, grid, monkeypatch)


@pytest.mark.slow
def test_pymc_takes_over_for_each(make_posterior: Make, cases, grid, monkeypatch: pytest.MonkeyPatch) -> None:
    without_nutpie(make_posterior, cases, grid, monkeypatch)


def standard_error(draws: np.ndarray) -> np.ndarray:
    """Monte Carlo standard error of the mean of draws (chain, draw, m)."""
    from arviz_stats.base import array_stats

    return np.asarray(array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean"))
