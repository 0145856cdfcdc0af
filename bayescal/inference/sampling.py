"""Compile a model once, then sample it for any data of the same structure.

nutpie runs the chains in threads of one process, so a fit works inside joblib, multiprocessing and notebooks, and gives
the same draws whatever the number of cores. A multi-threaded BLAS underneath those threads thrashes; it is limited to
one thread while chains run, and put back afterwards.
"""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import threadpoolctl

from bayescal.inference.convergence import Convergence, assess_convergence
from bayescal.validation import check_progress

if TYPE_CHECKING:
    import pymc as pm

Posterior = dict[str, np.ndarray]  # draws by name, (chain, draw, ...)
Progress = bool | Callable[[int, int, int], None] | None

_compiled: dict[Hashable, "_Compiled"] = {}  # per process, by structure
_blas_lock = threading.Lock()
_blas_limits: list[Any] = []  # one for each block that wants it now; the first holds what was there
_compiling = threading.Lock()  # two threads that compile at a time got models whose draws differ

# draw statistics under ArviZ's names
_STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "lp": "logp",
    "tree_depth": "depth",
    "n_steps": "n_steps",
    "step_size": "step_size",
    "acceptance_rate": "mean_tree_accept",
}


@dataclass(frozen=True)
class _Compiled:
    """A model and what nutpie made of it. The model gives the chains' starting points, from the data it holds."""

    model: "pm.Model"
    compiled: Any
    in_use: threading.Lock


@dataclass(frozen=True)
class SamplerSettings:
    """Sizes and seed of one run. `progress`: None = bar on a terminal; or ``f(done, total, divergences)``."""

    draws: int
    tune: int
    chains: int
    seed: int
    cores: int | None = None
    target_accept: float = 0.9
    redraw: Callable[[Posterior, np.random.Generator], Posterior] | None = None  # from a law that keeps the posterior
    auxiliary: tuple[str, ...] = ()  # variables that only the sampler needs; what is made of them is judged instead
    adaptation: str = "diag"  # of nutpie's mass matrix; "low_rank" where few parameters are strongly correlated
    progress: Progress = None

    def __post_init__(self) -> None:
        check_progress(self.progress)


@dataclass(frozen=True)
class Draws:
    """Posterior draws and draw statistics, arrays that begin with (chain, draw)."""

    posterior: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray]
    convergence: Convergence
    sampler: str  # "nutpie" or "pymc"


def sample(
    structure: Hashable,
    build: Callable[..., "pm.Model"],
    data: Mapping[str, np.ndarray],
    settings: SamplerSettings,
) -> Draws:
    """Sample the model ``build(**data)``.

    Parameters
    ----------
    structure
        Everything about the model but the values and lengths in `data`; equal structures share one compilation.
    build
        Makes the PyMC model; every value of `data` must be a ``pm.Data`` of the same name in it.
    data
        Arrays by name. Trusted: lengths that belong together are equal.
    settings
        Sizes, seed, cores. When the gate fails, one second run is made, with twice the warm-up, and with smaller steps
        where draws diverged or else twice the draws, of which every other is kept. The better run is returned.
    """
    run = _run_nutpie if _nutpie_works() else _run_pymc
    draws = run(structure, build, data, settings)
    if draws.convergence.verdict != "failed" or settings.draws * settings.chains < 400:
        return draws
    again = replace(settings, tune=2 * settings.tune, seed=settings.seed ^ 0x5DEECE66D)
    if draws.convergence.divergences:
        second = run(structure, build, data, replace(again, target_accept=0.98))
    else:  # smaller steps would not help, and where a density has kinks they cost much
        second = _every_other(run(structure, build, data, replace(again, draws=2 * settings.draws)), settings.auxiliary)
    better = second.convergence.verdict == "passed" or second.convergence.score > draws.convergence.score
    return second if better else draws


def compiled_structures() -> int:
    """How many model structures this process has compiled."""
    return len(_compiled)


def _nutpie_works() -> bool:
    try:
        import nutpie  # noqa: F401
    except ImportError as problem:
        warnings.warn(
            f"nutpie cannot be imported ({problem}); PyMC's own sampler is used, which is slower.",
            stacklevel=4,
        )
        return False
    return True


def _run_nutpie(
    structure: Hashable,
    build: Callable[..., "pm.Model"],
    data: Mapping[str, np.ndarray],
    settings: SamplerSettings,
) -> Draws:
    import nutpie

    with _compiling:
        known = _compiled.get(structure)
        if known is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*[Nn]umba.*", category=UserWarning)
                model = build(**data)
                known = _Compiled(model, nutpie.compile_pymc_model(model, backend="numba"), threading.Lock())
            _compiled[structure] = known
    with known.in_use, one_blas_thread(), _progress(settings) as callback:
        for name, value in data.items():
            known.model[name].set_value(value)
        run = nutpie.sample(
            known.compiled.with_data(**data),
            draws=settings.draws,
            tune=settings.tune,
            chains=settings.chains,
            cores=min(settings.cores or _available_cores(), settings.chains),
            seed=settings.seed,
            target_accept=settings.target_accept,
            adaptation=settings.adaptation,
            save_warmup=False,
            progress_bar=False,
            progress_callback=callback,
            blocking=False,
        )
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Found chain dimension to be longer", category=UserWarning)
                tree = run.wait()
        except BaseException:  # Ctrl-C above all: the chains' threads must end before the error leaves
            run.cancel()
            raise
    statistics = {name: tree.sample_stats[theirs].values for name, theirs in _STATISTICS.items()}
    statistics["reached_max_treedepth"] = tree.sample_stats["maxdepth_reached"].values
    return _finish({name: v.values for name, v in tree.posterior.data_vars.items()}, statistics, "nutpie", settings)


def _run_pymc(
    structure: Hashable,
    build: Callable[..., "pm.Model"],
    data: Mapping[str, np.ndarray],
    settings: SamplerSettings,
) -> Draws:
    import pymc as pm

    del structure  # PyMC compiles for every call
    with build(**data), one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the gate below judges convergence
        tree = pm.sample(
            draws=settings.draws,
            tune=settings.tune,
            chains=settings.chains,
            cores=1,  # worker processes would re-import a script without a main guard
            random_seed=settings.seed % 2**32,
            target_accept=settings.target_accept,
            nuts_sampler="pymc",
            progressbar=False,
            compute_convergence_checks=False,
        )
    stats = tree.sample_stats
    statistics = {name: stats[name].values for name in (*_STATISTICS, "reached_max_treedepth") if name in stats}
    return _finish({name: v.values for name, v in tree.posterior.data_vars.items()}, statistics, "pymc", settings)


def _every_other(draws: Draws, auxiliary: tuple[str, ...] = ()) -> Draws:
    """Every other draw, judged anew; a divergence counts for the kept draw that follows it, too."""
    statistics = {name: value[:, 1::2] for name, value in draws.statistics.items()}
    statistics["diverging"] = statistics["diverging"] | draws.statistics["diverging"][:, ::2]
    posterior = {name: value[:, 1::2] for name, value in draws.posterior.items()}
    # energies of neighbouring draws, kept or not, say how well the sampler moved
    found = assess_convergence(_judged(posterior, auxiliary), statistics["diverging"], draws.statistics["energy"])
    return Draws(posterior, statistics, found, draws.sampler)


def _finish(posterior: Posterior, statistics: dict[str, np.ndarray], sampler: str, settings: SamplerSettings) -> Draws:
    if settings.redraw is not None:
        posterior = settings.redraw(posterior, np.random.default_rng([settings.seed, 4]))
    judged = _judged(posterior, settings.auxiliary)
    return Draws(
        posterior, statistics, assess_convergence(judged, statistics["diverging"], statistics["energy"]), sampler
    )


def _judged(posterior: Posterior, auxiliary: tuple[str, ...]) -> Posterior:
    """What the gate looks at: an effective sample size says something of what is reported only."""
    return {name: values for name, values in posterior.items() if name not in auxiliary}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block, and put back what was there when the last of such blocks ends.

    The limit is the process's: of fits in threads, the first to end must not lift it for the others, nor the last put
    back the limit of the first.
    """
    with _blas_lock:
        _blas_limits.append(None if _blas_limits else threadpoolctl.threadpool_limits(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _blas_lock:
            last = _blas_limits.pop()
            if not _blas_limits:
                last.restore_original_limits()


@contextmanager
def _progress(settings: SamplerSettings) -> Iterator[Callable[[Any], None] | None]:
    """The sampler's callback, which runs in a thread of its own."""
    wanted = settings.progress
    if callable(wanted):
        yield lambda chains: wanted(
            sum(c.finished_draws for c in chains),
            sum(c.total_draws for c in chains),
            sum(c.divergences for c in chains),
        )
        return
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("sampling"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sampling", total=settings.chains * (settings.draws + settings.tune))
        yield lambda chains: bar.update(task, completed=sum(c.finished_draws for c in chains))


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
