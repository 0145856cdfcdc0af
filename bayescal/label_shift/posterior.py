"""Posterior draws of class proportions, one for each of many draws of the calibrator at once.

    q ~ Dirichlet(a),      log L(q) = sum_k n_k log sum_i q_i r_ki,      r_ki = p_i(x_k) / p_i

where every draw b of the calibrator has ratios r of its own. What is wanted is not many draws for one b but one for
each, and all of them are made side by side.

q is the normalised vector of independent gamma variables exp(e_i) with shapes a_i, whose logs have the density

    log p(e) = sum_i (a_i e_i - exp(e_i)) + log L(q),      q = exp(e) / sum_i exp(e_i),

without bounds, and log-concave in the near-empty classes where the Dirichlet density piles up at 0. Hamiltonian Monte
Carlo starts from the mode of each b, with the metric of its Hessian there. The mode is that of

    sum_i a_i log q_i + log L(q) - (sum_i a_i + sum_k n_k) sum_i q_i,

which is concave and has its maximum inside the simplex; exp(e) = q sum_i a_i there. Two classes have one unknown, and
are drawn exactly instead: the distribution function of t = log(q_1 / q_0) on a grid around the mode.
"""

import numpy as np

TRANSITIONS = 10
ACCEPTED = 0.75  # share of transitions, below which they are made again with half the step
ROUNDS = 4
PATH = 1.7  # of a transition, in units of the metric
NEWTON_STEPS = 30
NODES = 81  # of the grid for two classes
REACH = 5.5  # of its ends: 2 sinh(5.5) = 245 standard deviations, beyond a tail of exp(-a |t|)


def draw_proportions(
    rows: np.ndarray, weight: np.ndarray, concentration: np.ndarray, start: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One draw of q ``(B, K)`` for each of B sets of ratios, and how many of its transitions were accepted ``(B,)``.

    Parameters
    ----------
    rows
        Ratios ``(B, N, K)``, each row up to a factor of its own; every row has a positive entry.
    weight
        Cases that each row stands for, ``(N,)``.
    concentration
        a, positive, ``(K,)``.
    start
        Positive proportions to look for the modes from, ``(K,)``.
    rng
        Generator of all draws.
    """
    b, _, k = rows.shape
    if k == 1:
        return np.ones((b, 1)), np.ones(b)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        mode = modes(rows, weight, concentration, start)
        if k == 2:
            return _draw_two(rows, weight, concentration, mode, rng), np.ones(b)
        return _hamiltonian(rows, weight, concentration, mode, rng)


def modes(rows: np.ndarray, weight: np.ndarray, concentration: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Modes ``(B, K)`` in the coordinates e, by EM and then Newton's method, to a tenth of a standard deviation."""
    total = weight.sum() + concentration.sum()
    q = np.tile(start / start.sum(), (len(rows), 1))
    for _ in range(3):
        q = (q * _pull(rows, weight, q)[0] + concentration) / total
    open_, value = np.arange(len(rows)), np.full(len(rows), np.inf)
    value = _objective(rows, weight, concentration, q, total)
    for _ in range(NEWTON_STEPS):
        here, at = rows[open_], q[open_]
        pull, mixture = _pull(here, weight, at)
        scaled = here * (np.sqrt(weight) / mixture)[:, :, None]
        hessian = scaled.transpose(0, 2, 1) @ scaled
        hessian[:, np.arange(q.shape[1]), np.arange(q.shape[1])] += concentration / at**2
        gradient = pull + concentration / at - total
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        decrement = np.einsum("bk,bk->b", step, gradient)
        size = 1 / np.maximum(1.0, 1.05 * (-step / at).max(axis=1))  # stays inside
        for _ in range(8):
            new = _objective(here, weight, concentration, at + size[:, None] * step, total)
            worse = new > value[open_]
            if not worse.any():
                break
            size = np.where(worse, 0.3 * size, size)
        better = new <= value[open_]
        q[open_[better]] = (at + size[:, None] * step)[better]
        value[open_[better]] = new[better]
        open_ = open_[better & (decrement > 0.01)]
        if not open_.size:
            break
    return q / q.sum(axis=1, keepdims=True)


def _pull(rows: np.ndarray, weight: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of log L ``(B, K)`` and the mixture ``(B, N)``."""
    mixture = (rows @ q[:, :, None])[..., 0]
    return ((weight / mixture)[:, None, :] @ rows)[:, 0], mixture


def _objective(
    rows: np.ndarray, weight: np.ndarray, concentration: np.ndarray, q: np.ndarray, total: float
) -> np.ndarray:
    """What the mode minimises, ``(B,)``."""
    mixture = (rows @ q[:, :, None])[..., 0]
    return total * q.sum(axis=1) - np.log(q) @ concentration - np.log(mixture) @ weight


def _hamiltonian(
    rows: np.ndarray, weight: np.ndarray, concentration: np.ndarray, mode: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    b, _, k = rows.shape
    n = weight.sum()
    e = np.log(mode * concentration.sum())
    to_e = _metric(rows, weight, concentration, mode)
    step = 0.9 * k**-0.25

    def slope(at: np.ndarray) -> np.ndarray:
        q = _softmax(at)
        gradient = concentration - np.exp(at) + q * (_pull(rows, weight, q)[0] - n)
        return (gradient[:, None, :] @ to_e)[:, 0]  # along the metric's axes

    def log_density(at: np.ndarray) -> np.ndarray:
        mixture = (rows @ _softmax(at)[:, :, None])[..., 0]
        return at @ concentration - np.exp(at).sum(axis=1) + np.log(mixture) @ weight

    here, uphill = log_density(e), slope(e)
    for _ in range(ROUNDS):
        accepted = np.zeros(b)
        for _ in range(TRANSITIONS):
            momentum = rng.standard_normal((b, k))
            size = step * rng.uniform(0.7, 1.3, (b, 1))
            energy = here - 0.5 * (momentum**2).sum(axis=1)
            there, gradient = e, uphill
            for _ in range(int(np.ceil(PATH / step))):
                momentum = momentum + 0.5 * size * gradient
                there = there + (to_e @ (size * momentum)[:, :, None])[..., 0]
                gradient = slope(there)
                momentum = momentum + 0.5 * size * gradient
            proposed = log_density(there)
            accept = np.log(rng.random(b)) < proposed - 0.5 * (momentum**2).sum(axis=1) - energy
            e, uphill = np.where(accept[:, None], there, e), np.where(accept[:, None], gradient, uphill)
            here = np.where(accept, proposed, here)
            accepted += accept
        if accepted.mean() >= ACCEPTED * TRANSITIONS:
            break
        step /= 2
    return _softmax(e), accepted / TRANSITIONS


def _metric(rows: np.ndarray, weight: np.ndarray, concentration: np.ndarray, mode: np.ndarray) -> np.ndarray:
    """A root ``(B, K, K)`` of the inverse Hessian of -log p(e) at the modes.

    The Hessian is diag(a) + sum_k n_k phi_k phi_k' - n q q' with phi_ki = q_i r_ki / sum_j q_j r_kj.
    """
    mixture = (rows @ mode[:, :, None])[..., 0]
    phi = rows * mode[:, None, :] * (np.sqrt(weight) / mixture)[:, :, None]
    hessian = phi.transpose(0, 2, 1) @ phi - weight.sum() * mode[:, :, None] * mode[:, None, :]
    hessian += np.diag(concentration)
    values, vectors = np.linalg.eigh(hessian)
    least = concentration.min() / 2  # the mode is not exact
    return vectors / np.sqrt(np.maximum(values, least))[:, None, :]


def _draw_two(
    rows: np.ndarray, weight: np.ndarray, concentration: np.ndarray, mode: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Exact draws of ``(B, 2)``: t has log density a_0 log q_0 + a_1 log q_1 + log L."""
    a0, a1 = concentration
    q = mode[:, 1]
    mixture = (rows @ mode[:, :, None])[..., 0]
    r = (rows[:, :, 1] - rows[:, :, 0]) / mixture
    v = q * (1 - q)
    curvature = (a0 + a1) * v - (1 - 2 * q) * v * (r @ weight) + v**2 * (r**2 @ weight)
    sd = 1 / np.sqrt(np.maximum(curvature, min(a0, a1) / 4))
    offsets = 2 * np.sinh(np.linspace(-REACH, REACH, NODES))
    t = np.log(q / (1 - q))[:, None] + sd[:, None] * offsets
    density = -a0 * np.logaddexp(0, t) - a1 * np.logaddexp(0, -t)
    for j in range(NODES):
        q1 = 1 / (1 + np.exp(-t[:, j]))[:, None]
        q0 = 1 / (1 + np.exp(t[:, j]))[:, None]
        density[:, j] += np.log(rows[:, :, 0] * q0 + rows[:, :, 1] * q1) @ weight
    density = np.exp(density - density.max(axis=1, keepdims=True))
    mass = np.cumsum(0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(t, axis=1), axis=1)
    u = rng.random(len(rows)) * mass[:, -1]
    cell = np.minimum((mass < u[:, None]).sum(axis=1), NODES - 2)
    lane = np.arange(len(rows))
    left, right, width = density[lane, cell], density[lane, cell + 1], np.diff(t, axis=1)[lane, cell]
    below = np.where(cell > 0, mass[lane, cell - 1], 0.0)
    # the density is a straight line in the cell: the root of its integral
    rest, rise = (u - below) / width, right - left
    root = np.sqrt(np.maximum(left**2 + 2 * rise * rest, 0.0))
    share = np.clip(2 * rest / np.maximum(left + root, 1e-300), 0.0, 1.0)
    drawn = t[lane, cell] + share * width
    return np.stack([1 / (1 + np.exp(drawn)), 1 / (1 + np.exp(-drawn))], axis=1)


def _softmax(e: np.ndarray) -> np.ndarray:
    shifted = np.exp(e - e.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
