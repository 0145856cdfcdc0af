"""When the convergence gate fails, the sampler runs once more: what it asks for, and which run it returns."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayescal.inference import sampling
from bayescal.inference.convergence import assess_convergence
from bayescal.inference.sampling import Draws, SamplerSettings

SETTINGS = SamplerSettings(draws=200, tune=100, chains=4, seed=5)


def made(chains: int, draws: int, correlation: float, diverging: list[tuple[int, int]]) -> Draws:
    """A run whose chains are autoregressive of order one."""
    rng = np.random.default_rng(draws)
    x, noise = np.zeros((chains, draws)), rng.normal(size=(chains, draws))
    for i in range(draws):
        x[:, i] = correlation * x[:, i - 1] + noise[:, i] * np.sqrt(1 - correlation**2)
    statistics = {"diverging": np.zeros((chains, draws), dtype=bool), "energy": rng.normal(size=(chains, draws))}
    for place in diverging:
        statistics["diverging"][place] = True
    found = assess_convergence({"x": x}, statistics["diverging"], statistics["energy"])
    return Draws({"x": x}, statistics, found, "nutpie")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[SamplerSettings]]:
    """Replace the sampler by runs that the test makes; returns the settings that they were asked with."""

    def replace(*results: Callable[[SamplerSettings], Draws]) -> list[SamplerSettings]:
        asked: list[SamplerSettings] = []

        def run(structure: Any, build: Any, data: Any, settings: SamplerSettings) -> Draws:
            asked.append(settings)
            return results[len(asked) - 1](settings)

        monkeypatch.setattr(sampling, "_run_nutpie", run)
        return asked

    return replace


def sample(settings: SamplerSettings = SETTINGS) -> Draws:
    return sampling.sample("structure", lambda: None, {}, settings)


def test_a_run_that_passes_is_the_only_one(runs) -> None:
    asked = runs(lambda s: made(s.chains, s.draws, 0.0, []))
    assert sample().convergence.verdict == "passed"
    assert asked == [SETTINGS]


def test_slow_draws_are_made_twice_as_many_and_halved(runs) -> None:
    kept: list[Draws] = []

    def second(settings: SamplerSettings) -> Draws:
        kept.append(made(settings.chains, settings.draws, 0.2, []))
        return kept[0]

    asked = runs(lambda s: made(s.chains, s.draws, 0.9, []), second)
    found = sample()
    assert (asked[1].draws, asked[1].tune, asked[1].target_accept) == (400, 200, SETTINGS.target_accept)
    assert asked[1].seed != SETTINGS.seed
    np.testing.assert_array_equal(found.posterior["x"], kept[0].posterior["x"][:, 1::2])
    assert found.statistics["energy"].shape == (4, 200)
    assert found.convergence.verdict == "passed"
    assert found.convergence.e_bfmi == kept[0].convergence.e_bfmi  # of all draws


def test_a_divergence_between_kept_draws_is_counted(runs) -> None:
    runs(
        lambda s: made(s.chains, s.draws, 0.9, []),
        lambda s: made(s.chains, s.draws, 0.2, [(1, 40), (2, 41)]),
    )
    # 2 of 800 draws is more than the gate lets pass: the first run, without divergences, is better
    assert sample().convergence.divergences == 0
    both = sampling._every_other(made(4, 400, 0.2, [(1, 40), (2, 41)]))
    assert np.argwhere(both.statistics["diverging"]).tolist() == [[1, 20], [2, 20]]


def test_divergences_ask_for_smaller_steps(runs) -> None:
    asked = runs(
        lambda s: made(s.chains, s.draws, 0.0, [(0, 3), (1, 5)]),
        lambda s: made(s.chains, s.draws, 0.0, []),
    )
    assert sample().convergence.verdict == "passed"
    assert (asked[1].draws, asked[1].tune, asked[1].target_accept) == (200, 200, 0.98)


def test_the_better_of_two_failures_is_returned(runs) -> None:
    runs(lambda s: made(s.chains, s.draws, 0.9, []), lambda s: made(s.chains, s.draws, 0.999, []))
    expected = made(4, 200, 0.9, [])
    np.testing.assert_array_equal(sample().posterior["x"], expected.posterior["x"])


def test_hardly_any_draws_are_not_repeated(runs) -> None:
    few = SamplerSettings(draws=99, tune=100, chains=4, seed=5)
    asked = runs(lambda s: made(s.chains, s.draws, 0.9, []))
    assert sample(few).convergence.verdict == "failed"
    assert len(asked) == 1


def test_variables_that_only_the_sampler_needs_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    good, slow = made(4, 200, 0.0, []), made(4, 201, 0.95, [])
    draws = {"x": good.posterior["x"], "helper": slow.posterior["x"][:, 1:]}

    def run(structure: Any, build: Any, data: Any, settings: SamplerSettings) -> Draws:
        return sampling._finish(draws, good.statistics, "nutpie", settings)

    monkeypatch.setattr(sampling, "_run_nutpie", run)
    assert sample().convergence.verdict == "failed"
    found = sample(replace(SETTINGS, auxiliary=("helper",)))
    assert found.convergence.verdict == "passed"
    assert found.convergence.table.index.tolist() == ["x"]
    assert set(found.posterior) == {"x", "helper"}
