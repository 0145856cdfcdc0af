"""BBSE and RLLS: linear algebra of confusion matrices, singular ones included."""

import numpy as np
import pytest
from scipy.optimize import minimize

import bayescal as bc
from bayescal.label_shift.confusion import Confusion, bbse, joint, predicted, rlls, rlls_penalty
from bayescal.label_shift.confusion_posterior import confusion_counts, sample_confusion

# reported: QuaPy#27, cleanlab#639 and #158, a class that is never predicted
SINGULAR = Confusion(
    np.array([[0.45, 0.08, 0.12], [0.05, 0.22, 0.08], [0.0, 0.0, 0.0]]), np.array([0.7, 0.3, 0.0]), 500
)


def random_confusion(seed: int, classes: int = 4) -> tuple[Confusion, np.ndarray]:
    """A confusion matrix, and the weights that explain the target's predictions exactly."""
    rng = np.random.default_rng(seed)
    joint = (np.eye(classes) * 3 + rng.random((classes, classes))) / (3 + classes / 2) / classes
    joint /= joint.sum()
    weights = rng.uniform(0.1, 3, classes)
    weights /= joint.sum(axis=0) @ weights
    return Confusion(joint, joint @ weights, 300), weights


def test_confusion_of_labels_and_predictions() -> None:
    proba = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])
    y, target = np.array([0, 1, 1, 2]), np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    hard, soft = (joint(proba, y, hard=h) for h in (True, False))
    np.testing.assert_allclose(hard, np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]]) / 4)
    np.testing.assert_allclose(predicted(target, hard=True), [0.5, 0.5, 0])
    np.testing.assert_allclose(soft[:, 1], (proba[1] + proba[2]) / 4)
    np.testing.assert_allclose(predicted(target, hard=False), [0.4, 0.4, 0.2])
    np.testing.assert_allclose(confusion_counts(proba, y), [[1, 0, 0], [1, 1, 0], [0, 0, 1]])


def test_bbse_solves_what_has_a_solution(random_seed: int) -> None:
    given, weights = random_confusion(random_seed)
    np.testing.assert_allclose(bbse(given), weights, rtol=1e-9)


def test_negative_weights_become_zero_with_a_warning() -> None:
    # C w = u has w = (-0.5, 2.5); derived by hand
    given = Confusion(np.array([[0.4, 0.1], [0.1, 0.4]]), np.array([0.05, 0.95]), 100)
    with pytest.warns(bc.CalibrationWarning, match="1 of 2 class weights came out negative"):
        np.testing.assert_allclose(bbse(given), [0.0, 2.5])


def test_singular_matrix_is_solved_and_said_not_to_identify() -> None:
    with pytest.warns(bc.CalibrationWarning, match="rank 2 .*class number 2 is never predicted.*not identified"):
        weights = bbse(SINGULAR)
    np.testing.assert_allclose(weights, [1.368421, 1.052632, 0.0], atol=1e-6)  # SciPy's nnls, in the report
    np.testing.assert_allclose(SINGULAR.joint @ weights, SINGULAR.predicted, atol=1e-12)


def test_strong_regularisation_says_no_shift_and_none_says_bbse(random_seed: int) -> None:
    given, weights = random_confusion(random_seed)
    np.testing.assert_allclose(rlls(given, 1e3), 1.0, atol=1e-6)
    np.testing.assert_allclose(rlls(given, 0.0), weights, atol=1e-5)
    np.testing.assert_allclose(rlls(SINGULAR, 1e3), 1.0, atol=1e-6)
    assert np.isfinite(rlls(SINGULAR)).all()


def test_rlls_minimises_its_objective(random_seed: int) -> None:
    given, _ = random_confusion(random_seed)
    given = Confusion(given.joint, np.random.default_rng(random_seed).dirichlet(np.ones(4)), 60)
    rho, b = rlls_penalty(4, 60), given.predicted - given.joint.sum(axis=1)

    def objective(theta: np.ndarray) -> float:
        return float(np.linalg.norm(given.joint @ theta - b) + rho * np.linalg.norm(theta))

    found = objective(rlls(given) - 1)
    rng = np.random.default_rng(random_seed)
    for start in rng.normal(0, 1, (5, 4)):
        other = minimize(objective, np.maximum(start, -1), bounds=[(-1, None)] * 4, method="L-BFGS-B")
        assert found <= other.fun + 1e-8


def test_penalty_is_the_authors() -> None:
    # 0.03 (2 log(200) / 1500 + sqrt(2 log(200) / 500)), by hand for C = 5, n = 500
    assert rlls_penalty(5, 500) == pytest.approx(0.03 * (0.0070644 + 0.1455786), rel=1e-4)


def test_undetermined_direction_is_as_wide_as_the_prior() -> None:
    # classes 1 and 2 are predicted alike: their sum is known, their shares are not
    source = np.array([[40, 0, 0], [0, 20, 20], [0, 20, 20]])
    rng = np.random.default_rng(0)
    _, q = sample_confusion(source, np.array([300, 350, 350]), np.full(3, 0.5), np.zeros(3), 50, rng)
    q = q.reshape(-1, 3)
    low, high = np.quantile(q, [0.05, 0.95], axis=0)
    assert high[0] - low[0] < 0.15
    assert (high[1:] - low[1:] > 0.35).all()
