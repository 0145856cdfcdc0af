"""Copula fusion by point estimates: kernel margins, and for each class the most likely family of all scores at once.

Ozdemir et al. (2017), as Wang & Liu (2020) restate it in section 3.1 and use it in section 5. Margins are Gaussian
kernel estimates of the scores on [0, 1], with the bandwidth of the normal reference rule that statsmodels takes by
default. Two scores have any of the nine families. For more, Gauss and Student's t have a correlation matrix; Clayton
and Gumbel (both rotated too) and Frank are exchangeable, with tau >= 0; Plackett's family has no form that is used.

    clayton  c = prod_{k<M} (1 + k a) prod_j u_j^-(1 + a) (sum_j u_j^-a - M + 1)^-(M + 1/a)
    gumbel   c = e^-w (a / t)^M P_M(w) prod_j x_j^(a - 1) / u_j,      x_j = -log u_j,  t = sum_j x_j^a,  w = t^(1/a)
    frank    c = (a/p)^(M-1) e^(-a sum_j u_j) E_M(h) / (1 - h)^M,  p = 1 - e^-a,  h = prod_j (1 - e^(-a u_j)) / p^(M-1)

with P_{d+1} = (w P_d - w P_d') / a + d P_d, P_0 = 1, and E_M the Eulerian polynomial of degree M - 2. Hofert, Mächler &
McNeil (2012), "Likelihood inference for Archimedean copulas in high dimensions".
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, logsumexp, ndtr, ndtri

from bayescal.calibrators.copula_families import FAMILIES, NU, student_score
from bayescal.calibrators.copula_families import log_density as pair_log_density
from bayescal.calibrators.copula_vine import NAMES, U_CLIP, pair_count

ELLIPTICAL = ("gaussian", "t")
WITHOUT_MANY = ("plackett",)  # families of two scores only
SMALLEST_BANDWIDTH = 1e-3  # on [0, 1], of scores that are all equal within a class
MOST_TAU = 0.95
MANY_TAU = 0.9  # of exchangeable families
MOST_ROWS = 2**12  # of the kernel estimates; more are grouped to this many
BLOCK = 2**22

Array = np.ndarray


# margins --------------------------------------------------------------------------------------------------------------


def bandwidth(scores: Array, weight: Array) -> float:
    """Normal reference rule 1.059 min(sd, IQR / 1.349) n^(-1/5) of scores ``(m,)`` of frequencies ``(m,)``."""
    n = weight.sum()
    if n < 2:
        return SMALLEST_BANDWIDTH if n else 1.0
    mean = np.average(scores, weights=weight)
    sd = np.sqrt(weight @ (scores - mean) ** 2 / (n - 1))
    order = np.argsort(scores)
    rank = np.cumsum(weight[order]) - weight[order]  # of the first of equal cases, from 0
    last = rank + weight[order] - 1
    at, value = np.stack([rank, last], axis=1).reshape(-1), np.repeat(scores[order], 2)
    low, high = np.interp([0.25 * (n - 1), 0.75 * (n - 1)], at, value)
    spread = min(sd, (high - low) / 1.349) if high > low else sd
    return max(float(1.059 * spread * n**-0.2), SMALLEST_BANDWIDTH)


def kernel_margin(s: Array, scores: Array, weight: Array, width: float) -> tuple[Array, Array]:
    """Log density and distribution function at s ``(m,)`` of the kernel estimate; of no cases, uniform on [0, 1]."""
    if not weight.any():
        return np.zeros(len(s)), np.clip(s, U_CLIP, 1 - U_CLIP)
    used = weight > 0
    scores, share = scores[used], weight[used] / weight[used].sum()
    log_density, distribution = np.empty(len(s)), np.empty(len(s))
    block = max(1, BLOCK // len(scores))
    for start in range(0, len(s), block):
        part = slice(start, start + block)
        z = (s[part, None] - scores) / width
        log_density[part] = logsumexp(-0.5 * z**2, b=share, axis=1)
        distribution[part] = ndtr(z) @ share
    return log_density - np.log(width * np.sqrt(2 * np.pi)), np.clip(distribution, U_CLIP, 1 - U_CLIP)


def kernel_margins(s: Array, parameters: dict[str, Array], label: int) -> tuple[Array, Array]:
    """Sum of log margins ``(m,)`` and u ``(m, M)`` of a class at s ``(m, M)``."""
    parts = [
        kernel_margin(column, points, parameters["cases"][label], width)
        for column, points, width in zip(s.T, parameters["points"].T, parameters["bandwidth"][label], strict=True)
    ]
    return np.sum([log_density for log_density, _ in parts], axis=0), np.stack([u for _, u in parts], axis=1)


# copulas of all scores ------------------------------------------------------------------------------------------------


def correlation(tau: Array, n_scores: int) -> Array:
    """Correlation matrix whose partial correlations along the canonical vine are sin(pi tau / 2)."""
    partial = iter(np.sin(np.pi / 2 * tau))
    lower = np.zeros((n_scores, n_scores))  # Cholesky factor
    lower[0, 0] = 1.0
    left = np.ones(n_scores)  # what of each variance the columns so far have not explained
    for k in range(n_scores - 1):
        for j in range(k + 1, n_scores):
            r = next(partial)
            lower[j, k] = r * np.sqrt(left[j])
            left[j] *= (1 - r) * (1 + r)
        lower[k + 1, k + 1] = np.sqrt(left[k + 1])
    return lower @ lower.T


def log_density(name: str, u: Array, tau: Array) -> Array:
    """Log density ``(m,)`` of a family at u ``(m, M)``; tau ``(P,)`` by pair, or the same for all if exchangeable."""
    if u.shape[1] == 2:
        return pair_log_density(name, u[:, 1], u[:, 0], tau[0])
    if name == "independence":
        return np.zeros(len(u))
    if name in ELLIPTICAL:
        return _elliptical(name, u, correlation(tau, u.shape[1]))
    if name.startswith("rotated "):
        return _EXCHANGEABLE[name.removeprefix("rotated ")](1 - u, FAMILIES[name].parameter(tau[:1])[0])
    return _EXCHANGEABLE[name](u, FAMILIES[name].parameter(tau[:1])[0])


def _elliptical(name: str, u: Array, r: Array) -> Array:
    x = ndtri(u) if name == "gaussian" else student_score(u)
    factor = np.linalg.cholesky(r + 1e-12 * np.eye(len(r)))
    square = (np.linalg.solve(factor, x.T) ** 2).sum(axis=0)
    log_det = 2 * np.log(np.diag(factor)).sum()
    if name == "gaussian":
        return -0.5 * (log_det + square - (x**2).sum(axis=1))
    m = len(r)
    constant = gammaln((NU + m) / 2) + (m - 1) * gammaln(NU / 2) - m * gammaln((NU + 1) / 2)
    margins = (NU + 1) / 2 * np.log1p(x**2 / NU).sum(axis=1)
    return constant - 0.5 * log_det - (NU + m) / 2 * np.log1p(square / NU) + margins


def _clayton(u: Array, a: float) -> Array:
    m, log_u = u.shape[1], np.log(u)
    most = -a * log_u.min(axis=1)
    # log(sum u^-a - m + 1), about the largest power
    total = most + np.log(np.exp(-a * log_u - most[:, None]).sum(axis=1) - (m - 1) * np.exp(-most))
    return np.log1p(a * np.arange(m)).sum() - (1 + a) * log_u.sum(axis=1) - (m + 1 / a) * total


def _gumbel(u: Array, a: float) -> Array:
    m, log_u = u.shape[1], np.log(u)
    log_x = np.log(-log_u)
    log_t = logsumexp(a * log_x, axis=1)
    polynomial = np.array([1.0])  # P_d, from the constant on
    for d in range(m):
        k = np.arange(len(polynomial) + 1)
        polynomial = np.append(0.0, polynomial) / a + (d - k / a) * np.append(polynomial, 0.0)
    log_w = log_t / a
    log_p = logsumexp(np.arange(m + 1) * log_w[:, None], b=polynomial, axis=1)
    return m * np.log(a) - np.exp(log_w) - m * log_t + log_p + ((a - 1) * log_x - log_u).sum(axis=1)


def _frank(u: Array, a: float) -> Array:
    m = u.shape[1]
    eulerian = np.array([1.0])
    for n in range(2, m):
        k = np.arange(n)
        eulerian = (k + 1) * np.append(eulerian, 0.0) + (n - k) * np.append(0.0, eulerian)
    log_p = np.log(-np.expm1(-a))
    log_h = np.log(-np.expm1(-a * u)).sum(axis=1) - (m - 1) * log_p
    rest = np.log(-np.expm1(np.minimum(log_h, -1e-300)))
    series = np.log(np.exp(log_h[:, None] * np.arange(len(eulerian))) @ eulerian)
    return (m - 1) * (np.log(a) - log_p) - a * u.sum(axis=1) + series - m * rest


_EXCHANGEABLE: dict[str, Callable[[Array, float], Array]] = {"clayton": _clayton, "gumbel": _gumbel, "frank": _frank}


# maximum likelihood ---------------------------------------------------------------------------------------------------


def candidates(names: tuple[str, ...], n_scores: int) -> tuple[str, ...]:
    """The families out of `names` that have a form for so many scores."""
    return tuple(name for name in names if n_scores == 2 or name not in WITHOUT_MANY)


def fit_copula(u: Array, weight: Array, names: tuple[str, ...]) -> tuple[int, Array]:
    """Number in `NAMES` and tau ``(P,)`` of the family with the largest likelihood at u ``(n, M)``."""
    found = {name: _fit_family(name, u, weight) for name in names}
    best = max(found, key=lambda name: found[name][0])
    return NAMES.index(best), found[best][1]


def _fit_family(name: str, u: Array, weight: Array) -> tuple[float, Array]:
    m = u.shape[1]
    count = pair_count(m)

    def loss(tau: Array) -> float:
        return -float(weight @ log_density(name, u, tau))

    if name == "independence" or not weight.any():
        return 0.0, np.zeros(count)
    if m > 2 and name in ELLIPTICAL:
        best = minimize(lambda x: loss(MOST_TAU * np.tanh(x)), np.full(count, 0.3), method="L-BFGS-B")
        return -float(best.fun), MOST_TAU * np.tanh(best.x)
    tau = np.full(count, _one_tau(lambda t: loss(np.full(count, t)), -MOST_TAU if m == 2 else 0.0))
    return -loss(tau), tau


def _one_tau(loss: Callable[[float], float], low: float) -> float:
    """The tau between `low` and `MOST_TAU` of the smallest loss: the best of a grid, refined between its neighbours."""
    grid = np.linspace(low, MOST_TAU if low < 0 else MANY_TAU, 20)
    best = int(np.argmin([loss(t) for t in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x)
