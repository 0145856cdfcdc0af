"""Posterior of class proportions given confusion counts, by Markov chains that run side by side.

    p ~ Dirichlet(a),   M_i ~ Dirichlet(1 / C),   q ~ Dirichlet(a)
    source counts n_ij ~ Multinomial(M_i),   target predictions t_j ~ Multinomial(q M)

as in ``models/confusion.py``. p given the source labels is a Dirichlet variable, and so are the rows of M given n, were
it not for t. A sweep of (q, M) makes two kinds of moves:

- Rows of M are proposed from Dirichlet(1 / C + n_i), first all of them and then one by one, and q moves along, to the
  q' with q' M' = q M. The likelihood of t stays what it is, so that the proposal is accepted with probability
  Dirichlet(q') |det M| / (Dirichlet(q) |det M'|), and never if q' has a negative part.
- The classes of the target cases are drawn: of t_j cases predicted to be j, Multinomial(t_j; q_i M_ij / (q M)_j) are of
  class i. Given these, q and the rows of M are Dirichlet variables.

The second alone is Gibbs sampling, which takes steps of 1 / sqrt(sum t) across a posterior of width 1 / sqrt(sum n).
"""

import numpy as np

SPREAD = 1.0  # prior cases in each row of the confusion matrix
CHAINS, BURN, THIN = 20, 300, 25
ROWS = 10  # of M that are proposed one by one in a sweep


def confusion_counts(proba: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Source cases by class and predicted class ``(C, C)``, from probabilities ``(n, C)`` and classes ``(n,)``."""
    k = proba.shape[1]
    return np.bincount(y * k + proba.argmax(axis=1), minlength=k * k).reshape(k, k).astype(float)


def sample_confusion(
    source: np.ndarray,
    target: np.ndarray,
    concentration: np.ndarray,
    labelled: np.ndarray,
    draws: int,
    rng: np.random.Generator,
    spread: float = SPREAD,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of p and q ``(CHAINS, draws, C)`` from counts.

    Parameters
    ----------
    source
        Source cases by class and predicted class, ``(C, C)``.
    target
        Target cases by predicted class, ``(C,)`` whole numbers.
    concentration
        a, ``(C,)``.
    labelled
        Labels of other target cases, ``(C,)``.
    draws
        Draws to keep of each chain, one of every `THIN` sweeps after `BURN`.
    rng
        Generator of all draws.
    spread
        Prior cases in each row of the confusion matrix.
    """
    k = len(target)
    p = _dirichlet(np.broadcast_to(concentration + source.sum(axis=1), (CHAINS, draws, k)), rng)
    shape_q, shape_matrix = concentration + labelled, spread / k + source
    q = _dirichlet(np.broadcast_to(shape_q, (CHAINS, k)), rng)
    matrix = _dirichlet(np.broadcast_to(shape_matrix, (CHAINS, k, k)), rng)
    kept = np.empty((CHAINS, draws, k))
    for sweep in range(BURN + THIN * draws):
        q, matrix = _classes(q, matrix, target, shape_q, shape_matrix, rng)
        q, matrix = _move_along(q, matrix, _dirichlet(np.broadcast_to(shape_matrix, matrix.shape), rng), shape_q, rng)
        for i in rng.permutation(k)[:ROWS]:
            proposal = matrix.copy()
            proposal[:, i] = _dirichlet(np.broadcast_to(shape_matrix[i], (CHAINS, k)), rng)
            q, matrix = _move_along(q, matrix, proposal, shape_q, rng)
        if sweep >= BURN and (sweep - BURN) % THIN == THIN - 1:
            kept[:, (sweep - BURN) // THIN] = q
    return p, kept


def _classes(
    q: np.ndarray,
    matrix: np.ndarray,
    target: np.ndarray,
    shape_q: np.ndarray,
    shape_matrix: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the classes of the target cases, and q and M given them."""
    shares = (q[:, :, None] * matrix).transpose(0, 2, 1) + 1e-300
    classes = rng.multinomial(target, shares / shares.sum(axis=2, keepdims=True)).transpose(0, 2, 1)
    return _dirichlet(shape_q + classes.sum(axis=2), rng), _dirichlet(shape_matrix + classes, rng)


def _move_along(
    q: np.ndarray, matrix: np.ndarray, proposal: np.ndarray, shape_q: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Accept or refuse rows of M that were drawn from their law given n, with q so that q M stays."""
    (sign, log_volume), (sign_new, log_volume_new) = np.linalg.slogdet(matrix), np.linalg.slogdet(proposal)
    regular = (sign != 0) & (sign_new != 0) & (log_volume_new > -300)
    safe = np.where(regular[:, None, None], proposal, np.eye(q.shape[1]))
    mixed = (q[:, None, :] @ matrix).transpose(0, 2, 1)
    moved = np.linalg.solve(safe.transpose(0, 2, 1), mixed)[..., 0]
    inside = regular & (moved > 0).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (np.log(np.where(inside[:, None], moved, q)) - np.log(q)) @ (shape_q - 1) + log_volume - log_volume_new
    accept = inside & (np.log(rng.random(len(q))) < gain)
    moved /= moved.sum(axis=1, keepdims=True)  # 1 but for rounding
    return np.where(accept[:, None], moved, q), np.where(accept[:, None, None], proposal, matrix)


def _dirichlet(shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw for each row of shapes ``(..., C)``, none exactly 0."""
    gamma = rng.standard_gamma(shape) + 1e-300
    return gamma / gamma.sum(axis=-1, keepdims=True)
