"""Any regressor that says how sure it is, in place of the latent process."""

from typing import Any

import numpy as np

from bayescal.casimac.cones import cone_probabilities, sampled_cone_probabilities
from bayescal.validation import ParameterValueError

SAMPLES = 10_000  # where the axes' standard deviations differ
EQUAL = 1e-9  # relative difference of standard deviations that is none
ROWS = 4096


class RegressorPredictor:
    """Class probabilities from a regressor's means and standard deviations of the latents."""

    rows_at_a_time = ROWS
    reads_features = True

    def __init__(self, regressor: Any, cases: np.ndarray, z: np.ndarray, spread: float, vertices: np.ndarray) -> None:
        self.spread, self.vertices = spread, vertices
        self.regressor = regressor.fit(cases, z[:, 0] if z.shape[1] == 1 else z)
        self._predict(cases[:1])

    def proba(self, rows: np.ndarray) -> np.ndarray:
        """Class probabilities ``(m, C)`` of rows of features."""
        mean, sd = self._predict(rows)
        if mean.shape[1] == 1 or (np.ptp(sd, axis=1) <= EQUAL * sd.max(axis=1)).all():
            return cone_probabilities(mean, self.spread * sd[:, 0], self.vertices)
        draws = np.random.default_rng(0).normal(size=(SAMPLES, mean.shape[1]))
        return sampled_cone_probabilities(mean, self.spread * sd, self.vertices, draws)

    def mean_latent(self, rows: np.ndarray) -> np.ndarray:
        """Means ``(m, q)``."""
        return self._predict(rows)[0]

    def _predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            mean, sd = self.regressor.predict(rows, return_std=True)
        except TypeError as problem:
            raise ParameterValueError(
                f"regressor must have predict(X, return_std=True), and {type(self.regressor).__name__} has not "
                f"({problem}). GaussianProcessRegressor and BayesianRidge have."
            ) from None
        mean, sd = np.asarray(mean).reshape(len(rows), -1), np.asarray(sd).reshape(len(rows), -1)
        return mean, np.broadcast_to(sd, mean.shape)
