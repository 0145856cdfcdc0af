"""The training-data transformation f: where the neighbours of a case put it in the latent space.

    f(x) = sum_{y != y(x)} (alpha A(x) + beta R(x, y)) (-p_y)
    A(x) = 1 / mean distance to the k_alpha nearest other cases of x's own class
    R(x, y) = mean distance to the k_beta nearest cases of class y

Eqs. 14-16 and 21 of Heese et al.; alpha = 1 - gamma, beta = gamma in their benchmarks (eq. 43). Mean distances below
`FLOOR` medians of all distances count as that: of cases that coincide the paper leaves all but one out, and 1 / 0 has
no place in a regression. Cases at one point with different labels lie close to the border of their cones then.

For leave-one-out, `Changes` holds how A and R of the other cases change when a case is deleted: only where it is among
their k nearest, whose mean becomes (sum - its distance + distance of the next) / k.
"""

from dataclasses import dataclass

import numpy as np

FLOOR = 1e-3  # of the median distance between cases


@dataclass(frozen=True)
class Neighbours:
    """The nearest cases of every class to every case."""

    codes: np.ndarray  # (n,) column numbers of the classes
    sizes: np.ndarray  # (C,) cases of each class
    distance: np.ndarray  # (n, C, K) ascending, inf where a class has no more cases
    index: np.ndarray  # (n, C, K)
    floor: float

    def attraction(self, k: int) -> np.ndarray:
        """A ``(n,)``, by the k nearest of the own class."""
        own = self.distance[np.arange(len(self.codes)), self.codes, :k]
        return 1.0 / np.maximum(own.mean(axis=1), self.floor)

    def repulsion(self, k: int) -> np.ndarray:
        """R ``(n, C)``, by the k nearest of each class; of the own class 0."""
        mean = np.maximum(self.distance[:, :, :k].mean(axis=2), self.floor)
        mean[np.arange(len(self.codes)), self.codes] = 0.0
        return mean


@dataclass(frozen=True)
class Changes:
    """By how much A of case `other`, or R towards the class of case `left_out`, changes without the case `left_out`."""

    left_out: np.ndarray  # (t,)
    other: np.ndarray  # (t,)
    change: np.ndarray  # (t,)


@dataclass(frozen=True)
class Pull:
    """Weights and neighbour numbers of one transformation."""

    alpha: float
    beta: float
    k_alpha: int
    k_beta: int


def find_neighbours(distance: np.ndarray, codes: np.ndarray, n_classes: int, most: int) -> Neighbours:
    """The `most` nearest cases of each class, from all distances ``(n, n)``."""
    n = len(codes)
    near = np.full((n, n_classes, most), np.inf)
    index = np.zeros((n, n_classes, most), dtype=np.intp)
    sizes = np.bincount(codes, minlength=n_classes)
    for y in range(n_classes):
        members = np.flatnonzero(codes == y)
        to_class = distance[:, members].copy()
        to_class[members, np.arange(len(members))] = np.inf  # no case is a neighbour of its own
        order = np.argsort(to_class, axis=1, kind="stable")[:, :most]
        found = order.shape[1]
        near[:, y, :found] = np.take_along_axis(to_class, order, axis=1)
        index[:, y, :found] = members[order]
    middle = float(np.median(distance[np.triu_indices(n, 1)]))
    return Neighbours(codes, sizes, near, index, FLOOR * middle if middle > 0 else FLOOR)


def latents(neighbours: Neighbours, pull: Pull, vertices: np.ndarray) -> np.ndarray:
    """f of every training case, ``(n, C - 1)``."""
    weight = pull.beta * neighbours.repulsion(pull.k_beta) if pull.beta else np.zeros_like(neighbours.distance[:, :, 0])
    z = -weight @ vertices
    if pull.alpha:  # sum over y != y(x) of -p_y is p_y(x)
        z += pull.alpha * neighbours.attraction(pull.k_alpha)[:, None] * vertices[neighbours.codes]
    return z


def changes(neighbours: Neighbours, k: int, *, own: bool) -> Changes:
    """What deleting a case changes: A of the cases of its own class, or R towards its class of the others."""
    n, n_classes, _ = neighbours.distance.shape
    case, cls = np.meshgrid(np.arange(n), np.arange(n_classes), indexing="ij")
    chosen = (cls == neighbours.codes[:, None]) == own
    case, cls = case[chosen], cls[chosen]
    near, index = neighbours.distance[case, cls, : k + 1], neighbours.index[case, cls, :k]
    total = near[:, :k].sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        after = np.maximum((total - near[:, :k] + near[:, k:]) / k, neighbours.floor)
        before = np.maximum(total / k, neighbours.floor)
        change = 1 / after - 1 / before if own else after - before
    change[~np.isfinite(change)] = 0.0  # a class without further cases: none of its cases can be left out
    return Changes(index.ravel(), np.repeat(case, k), change.ravel())
