"""What a fit of the CASIMAC classifier does: from settings, features and labels to what predictions are made of."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from bayescal.casimac import fitting
from bayescal.casimac.features import FeatureProcess
from bayescal.casimac.inputs import Space, check_correlation, check_distances, check_kernel, check_metric, read_cases
from bayescal.casimac.latent import KERNELS, LatentProcess
from bayescal.casimac.neighbours import Neighbours, Pull, find_neighbours
from bayescal.casimac.prediction import Predictor
from bayescal.casimac.regression import RegressorPredictor
from bayescal.casimac.settings import CASIMACPriors
from bayescal.casimac.simplex import simplex_vertices
from bayescal.casimac.transformations import read_pulls, read_spreads
from bayescal.inference.sampling import SamplerSettings
from bayescal.inference.seeds import seed_sequence
from bayescal.validation import ParameterValueError, check_choice, check_count

if TYPE_CHECKING:
    from bayescal.casimac.classifier import CASIMACClassifier

INFERENCES = ("nuts", "point")
LENGTH_SCALES = ("shared", "each")


@dataclass(frozen=True)
class Fit:
    """What predictions are made of, and what was found on the way."""

    space: Space
    classes: np.ndarray  # (C,) sorted labels
    neighbours: Neighbours
    pull: Pull  # the heaviest transformation
    predictor: Any  # `Predictor` or `RegressorPredictor`
    chosen: fitting.Weighted | None = None  # None with a regressor
    posterior: fitting.Posterior | None = None  # None of a point estimate
    kept: tuple[int, np.ndarray] | None = None  # chains, and the draws of each that predictions are made of


def learn(settings: "CASIMACClassifier", X: Any, y: Any) -> tuple[Fit, list[str]]:
    """Fit to labelled cases, and what is to be said about them. Of the estimator, only its features are set."""
    check_choice(settings.inference, INFERENCES, "inference")
    check_metric(settings.metric)
    check_kernel(settings.kernel)
    _check_length_scales(settings)
    spreads = read_spreads(settings.spread)
    priors = CASIMACPriors.read(settings.priors, CASIMACPriors())
    seeds = seed_sequence(settings.random_state).generate_state(3, np.uint64)
    space, classes, codes = read_cases(settings, X, y)
    smallest = int(np.bincount(codes).min())
    pulls = read_pulls(settings.alpha, settings.beta, settings.gamma, settings.k_alpha, settings.k_beta, smallest)
    vertices = simplex_vertices(len(classes))
    distance = check_distances(space.metric_to_cases(space.cases))
    most = max(max(pull.k_alpha, pull.k_beta) for pull in pulls) + 1
    neighbours = find_neighbours(distance, codes, len(classes), most)
    notes = _coinciding(distance, codes, classes)
    if settings.regressor is not None:
        regressor = _regressor(settings, space, neighbours, pulls, spreads, vertices)
        return Fit(space, classes, neighbours, pulls[0], regressor), notes
    process = process_of(space, priors, "shared")
    chosen = fitting.weigh(process, neighbours, vertices, pulls, spreads)
    if np.isnan(chosen.loss) and len(pulls) * len(spreads) > 1:
        notes.append(
            "no case can be left out, because a class is too small: transformations and spreads have equal "
            "weights. Add cases, or pass gamma, k_alpha, k_beta and spread."
        )
    if settings.length_scales == "each":
        process = process_of(space, priors, "each")
    posterior, kept = None, None
    if settings.inference == "nuts":
        rng = np.random.default_rng(int(seeds[1]))
        posterior = fitting.draw_posterior(process, chosen, sampler_settings(settings, int(seeds[0])), rng)
        parts, kept = fitting.posterior_parts(posterior, vertices.shape[1], rng)
    else:
        parts = fitting.point_parts(process, chosen)
    heaviest = chosen.pulls[int(chosen.weight.sum(axis=1).argmax())]
    made = Predictor(process, chosen.zs, parts, vertices)
    return Fit(space, classes, neighbours, heaviest, made, chosen, posterior, kept), notes


def process_of(space: Space, priors: CASIMACPriors, length_scales: str) -> LatentProcess:
    """The latent process over the training cases."""
    values = space.kernel_to_cases(space.cases)
    if callable(space.kernel):
        return LatentProcess(check_correlation(values), None, priors)
    if length_scales == "each":
        return FeatureProcess(values, KERNELS[space.kernel], priors, space.cases)
    return LatentProcess(values, KERNELS[space.kernel], priors)


def _check_length_scales(settings: "CASIMACClassifier") -> None:
    """Length-scales of features ask for features that are numbers, and for a kernel that has length-scales."""
    check_choice(settings.length_scales, LENGTH_SCALES, "length_scales")
    if settings.length_scales == "shared":
        return
    for name in ("metric", "kernel"):
        if callable(getattr(settings, name)):
            raise ParameterValueError(
                f"length_scales='each' needs a {name} by name: a callable one has no length-scale for each feature. "
                f"Pass a name for {name}, or length_scales='shared'."
            )
    if settings.regressor is not None:
        raise ParameterValueError(
            "length_scales='each' is a prior of the latent process, whose place the regressor takes. Give the "
            "regressor a length-scale for each feature, and pass length_scales='shared'."
        )


def sampler_settings(settings: Any, seed: int) -> SamplerSettings:
    """Sizes of the run, from an estimator's parameters of these names."""
    return SamplerSettings(
        draws=check_count(settings.draws, "draws"),
        tune=check_count(settings.tune, "tune"),
        chains=check_count(settings.chains, "chains"),
        cores=None if settings.cores is None else check_count(settings.cores, "cores"),
        seed=seed,
        progress=settings.progressbar,
    )


def _regressor(
    settings: "CASIMACClassifier",
    space: Space,
    neighbours: Neighbours,
    pulls: list[Pull],
    spreads: tuple[float, ...],
    vertices: np.ndarray,
) -> RegressorPredictor:
    if settings.inference != "point" or len(pulls) > 1 or len(spreads) > 1:
        raise ParameterValueError(
            "a regressor has no posterior and no leave-one-out weights: pass inference='point' with numbers for "
            "gamma (or alpha and beta), k_alpha, k_beta and spread, or choose them by cross-validation."
        )
    z, _ = fitting.scaled_latents(neighbours, pulls[0], vertices)
    return RegressorPredictor(clone(settings.regressor), space.cases, z, spreads[0], vertices)


def _coinciding(distance: np.ndarray, codes: np.ndarray, classes: np.ndarray) -> list[str]:
    """What is said of cases with different labels at one point."""
    first, second = np.nonzero(np.triu(distance == 0, 1) & (codes[:, None] != codes))
    if not len(first):
        return []
    one, other = classes[codes[[first[0], second[0]]]].tolist()
    names = f"{one!r} and {other!r}"
    return [
        f"{len(first)} pairs of cases coincide and have different labels, first rows {first[0]} and {second[0]} "
        f"({names}); they are taken as a thousandth of the median distance apart."
    ]
