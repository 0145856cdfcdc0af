"""Cases in the simplex of three or four classes: where each lies between the classes, and how clearly.

Latents are squeezed into the simplex by the compression map, which keeps every cone in its place. A case in the part of
a vertex is given that class; the closer it is to the vertex, the clearer.
"""

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from sklearn.utils.validation import check_is_fitted

from bayescal.casimac.answers import CASIMACAnswers, LatentAnswers
from bayescal.plots import BLUE, GREEN, GREY, PURPLE, VERMILLION, axes_or_new, class_name
from bayescal.validation import ParameterValueError, check_choice, label_values

STYLES = ((BLUE, "o"), (VERMILLION, "s"), (GREEN, "^"), (PURPLE, "D"))
TURN = {3: ((0.0, 1.0), (-0.8660254, -0.5), (0.8660254, -0.5))}  # where the vertices are drawn


def plot_simplex(
    classifier: LatentAnswers,
    X: Any,
    y: Any = None,
    *,
    latents: str = "process",
    ax: Any = None,
) -> Axes:
    """Draw cases in the simplex of three or four classes.

    Parameters
    ----------
    classifier : CASIMACClassifier or GenerativeCASIMACClassifier
        Fitted, of three classes (a triangle) or four (a tetrahedron).
    X : array-like of shape (m, d)
        Features of the cases.
    y : array-like of shape (m,), default=None
        Their labels, for colours and markers; None takes the predicted ones.
    latents : {"process", "transformation"}, default="process"
        What is drawn: the mean of the latent process, or the training-data transformation f of training cases,
        which only `CASIMACClassifier` has.
    ax : matplotlib Axes, default=None
        Where to draw, with ``projection="3d"`` for four classes; None makes a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.

    Raises
    ------
    ParameterValueError
        If the classifier has two classes or more than four, or no transformation, or the axes do not fit.

    Examples
    --------
    >>> import numpy as np, bayescal as bc
    >>> x = np.array([[0.0], [0.4], [0.8], [3.0], [3.4], [3.8], [6.0], [6.4], [6.8]])
    >>> clf = bc.CASIMACClassifier(inference="point").fit(x, np.repeat(["low", "mid", "top"], 3))
    >>> ax = bc.plot_simplex(clf, x)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['class low', 'class mid', 'class top']
    """
    check_is_fitted(classifier, "classes_")
    check_choice(latents, ("process", "transformation"), "latents")
    n = len(classifier.classes_)
    if n not in (3, 4):
        raise ParameterValueError(f"plot_simplex draws three or four classes, got a classifier of {n}.")
    z = classifier.predict_latent(X)
    if latents == "transformation":
        if not isinstance(classifier, CASIMACAnswers):
            raise ParameterValueError(
                "latents='transformation' draws what CASIMACClassifier computes from labels, and "
                f"{type(classifier).__name__} computes none. Pass latents='process'."
            )
        f = classifier.transform(X)
        z = f / np.sqrt((f**2).mean())
    labels = classifier.classes_[classifier.predict_proba(X).argmax(axis=1)] if y is None else label_values(y, len(z))
    if n == 4:
        ax = _axes_3d(ax)
    ax = axes_or_new(ax, (5.0, 4.6))
    if n == 4 and ax.name != "3d":
        raise ParameterValueError("four classes need axes with projection='3d'; pass such axes as ax, or none.")
    rotation = _rotation(classifier.vertices_)
    corners, points = classifier.vertices_ @ rotation, classifier.compress(z) @ rotation
    _draw_simplex(ax, corners)
    for k, label in enumerate(classifier.classes_.tolist()):
        color, marker = STYLES[k]
        own = points[labels == classifier.classes_[k]]
        ax.plot(*own.T, linestyle="none", marker=marker, color=color, markersize=4, alpha=0.7, label=class_name(label))
        ax.text(*(1.12 * corners[k]), class_name(label), color=color, ha="center", va="center")
    ax.set_axis_off()
    ax.set_aspect("equal")
    ax.legend(loc="upper right", fontsize="small")
    what = "mean of the latent process" if latents == "process" else "training-data transformation"
    ax.set_title(f"{what}, compressed", fontsize="medium", pad=16)
    return ax


def _axes_3d(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.figure(figsize=(5.6, 5.0), layout="constrained").add_subplot(projection="3d")


def _rotation(vertices: np.ndarray) -> np.ndarray:
    """The turn after which the first of three vertices is on top; four stay as they are."""
    n = len(vertices)
    if n != 3:
        return np.eye(n - 1)
    return (n - 1) / n * vertices.T @ np.array(TURN[3])


def _draw_simplex(ax: Axes, corners: np.ndarray) -> None:
    """Edges, and the borders between cones as lines from the middle to the middles of the edges."""
    for a, b in combinations(range(len(corners)), 2):
        ax.plot(*np.stack([corners[a], corners[b]]).T, color=GREY, linewidth=1.2)
        middle = 0.5 * (corners[a] + corners[b])
        ax.plot(*np.stack([np.zeros_like(middle), middle]).T, color=GREY, linewidth=0.8, linestyle=":")
