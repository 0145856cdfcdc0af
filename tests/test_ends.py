"""Scores of exactly 0 and 1 under calibrators that read log-odds: said where few of them carry the fit."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

import bayescal as bc


def cases(seed: int, ends: dict[float, list[int]], n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident scores and labels, some of which are at the ends: labels by score."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, n)
    scores, y = expit(z), (rng.random(n) < expit(0.8 * z - 0.3)).astype(int)
    at = [(score, label) for score, labels in ends.items() for label in labels]
    for row, (score, label) in enumerate(at):
        scores[row], y[row] = score, label
    return scores, y


def said(calibrator: bc.PlattCalibrator | bc.BetaCalibrator, *data: np.ndarray) -> list[str]:
    """The warnings about ends of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(*data)
    return [str(warning.message) for warning in caught if "stand in" in str(warning.message)]


@pytest.mark.parametrize("ends", [{1.0: [0]}, {0.0: [1], 1.0: [0]}, {1.0: [1, 0]}], ids=str)
def test_few_wrong_scores_at_the_ends_are_said_once(ends: dict, random_seed: int) -> None:
    scores, y = cases(random_seed, ends)
    inner = (scores > 0) & (scores < 1)
    (text,) = said(bc.PlattCalibrator(inference="point"), scores, y)
    assert text.startswith(f"platt calibration: {(~inner).sum()} of 60 cases have a score of 0 or 1")
    assert f"nearest of the others, {scores[inner].min():.3g} and {scores[inner].max():.3g}." in text
    # what the warning advises brings the curve nearer to that of the other rows
    grid = np.linspace(0.1, 0.9, 9)
    nearer = np.clip(scores, scores[inner].min(), scores[inner].max())
    curves = []
    for rows, labels in ((scores, y), (nearer, y), (scores[inner], y[inner])):
        cal = bc.PlattCalibrator(inference="point")
        assert (said(cal, rows, labels) != []) == (rows is scores)
        curves.append(cal.predict_proba(grid)[:, 1])
    assert np.abs(curves[1] - curves[2]).max() < np.abs(curves[0] - curves[2]).max()


@pytest.mark.parametrize("cls", [bc.PlattCalibrator, bc.BetaCalibrator])
@pytest.mark.parametrize("ends", [{}, {0.0: [0], 1.0: [1]}], ids=str)
def test_right_scores_at_the_ends_are_not_said(cls: type, ends: dict, random_seed: int) -> None:
    assert said(cls(inference="point"), *cases(random_seed, ends)) == []


def test_two_wrong_ends_are_said_of_the_beta_map_and_of_a_posterior(random_seed: int) -> None:
    data = cases(random_seed, {0.0: [1], 1.0: [0]})
    assert len(said(bc.BetaCalibrator(inference="point"), *data)) == 1
    assert len(said(bc.PlattCalibrator(draws=20, tune=50, chains=2, random_state=0), *data)) == 1


def test_of_several_scores_each_column_has_its_ends(random_seed: int) -> None:
    scores, y = cases(random_seed, {1.0: [0]})
    both = np.column_stack([np.linspace(0.2, 0.7, 60), scores])
    (text,) = said(bc.PlattCalibrator(inference="point"), both, y)
    assert "0.2 and 0.7, " in text


def test_many_scores_at_the_ends_are_the_data_and_log_odds_have_no_ends(random_seed: int) -> None:
    scores, y = cases(random_seed, {1.0: [0, 0, 1, 1, 1, 1, 1]})
    assert said(bc.PlattCalibrator(inference="point"), scores, y) == []
    assert said(bc.PlattCalibrator("raw", inference="point"), *cases(random_seed, {1.0: [0]})) == []
    weight = np.where(np.arange(60) == 0, 0.0, 1.0)
    assert said(bc.PlattCalibrator(inference="point"), *cases(random_seed, {1.0: [0]}), weight) == []


def test_all_scores_at_the_ends() -> None:
    assert said(bc.PlattCalibrator(inference="point"), np.arange(10) % 2, np.arange(10) % 2) == []
