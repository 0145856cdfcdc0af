"""`plot_simplex`: what is drawn, where, and in whose name."""

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt

import bayescal as bc
from bayescal.casimac.simplex import barycentric


def fitted(classes: int, seed: int = 0) -> tuple[bc.CASIMACClassifier, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.arange(10 * classes) % classes
    x = rng.normal(size=(len(codes), 2)) + 3 * np.column_stack([np.cos(1.6 * codes), np.sin(1.6 * codes)])
    y = np.array(["ape", "bee", "cow", "doe", "elk"])[codes]
    return bc.CASIMACClassifier(inference="point").fit(x, y), x, y


def markers(ax: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_three_classes_lie_in_a_triangle() -> None:
    clf, x, y = fitted(3)
    figure, ax = plt.subplots()
    assert bc.plot_simplex(clf, x, y, ax=ax) is ax and figure.axes == [ax]
    drawn = markers(ax)
    assert list(drawn) == ["class ape", "class bee", "class cow"]
    corners = np.array([[0.0, 1.0], [-np.sqrt(0.75), -0.5], [np.sqrt(0.75), -0.5]])
    expected = barycentric(clf.compress(clf.predict_latent(x)), clf.vertices_)
    for k, line in enumerate(drawn.values()):
        points = np.column_stack(line.get_data())
        np.testing.assert_allclose(barycentric(points, corners), expected[y == clf.classes_[k]], rtol=0, atol=1e-6)
        assert (barycentric(points, corners) > 0).all()
    assert len(ax.lines) == 3 + 3 + 3  # classes, edges, borders of cones


def test_four_classes_lie_in_a_tetrahedron() -> None:
    clf, x, y = fitted(4)
    ax = bc.plot_simplex(clf, x, y, latents="transformation")
    assert ax.name == "3d"
    f = clf.transform(x)
    expected = clf.compress(f / np.sqrt((f**2).mean()))
    for k, line in enumerate(markers(ax).values()):
        np.testing.assert_allclose(np.column_stack(line.get_data_3d()), expected[y == clf.classes_[k]], atol=1e-12)
    with pytest.raises(bc.ParameterValueError, match="projection='3d'"):
        bc.plot_simplex(clf, x, ax=plt.subplots()[1])


def test_without_labels_the_predicted_ones_are_drawn() -> None:
    clf, x, _ = fitted(3)
    drawn = markers(bc.plot_simplex(clf, x))
    counts = [len(line.get_xdata()) for line in drawn.values()]
    assert counts == [(clf.predict(x) == label).sum() for label in clf.classes_]


def test_two_and_five_classes_are_refused() -> None:
    for classes in (2, 5):
        clf, x, _ = fitted(classes)
        with pytest.raises(bc.ParameterValueError, match=f"three or four classes, got a classifier of {classes}"):
            bc.plot_simplex(clf, x)


def test_picture_can_be_saved(tmp_path: Any) -> None:
    clf, x, y = fitted(4)
    bc.plot_simplex(clf, x, y).figure.savefig(tmp_path / "simplex.png")
    assert (tmp_path / "simplex.png").stat().st_size > 10_000
