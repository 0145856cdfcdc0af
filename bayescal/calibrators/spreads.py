"""Spreads of classes, drawn anew given what the likelihood sees of them.

The likelihood of scaling sees the biases b = spread raw and the log scales l = t + spread raw, never the factors. Given
b, or l, the spread and t = -log temperature are independent of the cases:

    p(spread | b)  ~  HalfNormal(spread) prod_k Normal(b_k; 0, spread)
    p(spread | l)  ~  HalfNormal(spread) Normal(l; mean 1, spread^2 I + sd^2 1 1'),      t | spread, l  is normal

A sampler of spread and raw goes slowly along b = const, where the cases hold b and leave its factors to the prior. A
draw from these laws in place of each of its own leaves the posterior as it is, and its spread depends on the draw
before only through b (a step of interweaving, after Yu & Meng 2011, "To center or not to center").
"""

import numpy as np

NODES = 400  # of the grid in log spread
REACH = 9.0  # of its ends, in standard deviations around the mode
DOWN = 40.0  # units of log density that the upper tail falls by to the end of the grid


def draw_bias_spread(bias: np.ndarray, sd: float, rng: np.random.Generator) -> np.ndarray:
    """Spreads ``(S,)`` given biases ``(S, C)``; `sd` is the half-normal prior's."""
    squares = (bias**2).sum(axis=1)
    grid = _grid(squares, bias.shape[1], sd)
    variance = np.exp(2 * grid)
    log_density = -variance / (2 * sd**2) - (bias.shape[1] - 1) * grid - squares[:, None] / (2 * variance)
    return np.exp(_draw(grid, log_density, rng))


def draw_scale_spread(
    log_scale: np.ndarray, mean: float, log_sd: float, sd: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Spreads and t, ``(S,)`` each, given log scales ``(S, C)``; t ~ Normal(mean, log_sd), spread ~ HalfNormal(sd)."""
    size = log_scale.shape[1]
    middle = log_scale.mean(axis=1)
    squares = ((log_scale - middle[:, None]) ** 2).sum(axis=1)
    grid = _grid(squares, size - 1, sd)
    variance = np.exp(2 * grid)
    between = variance + size * log_sd**2
    log_density = -variance / (2 * sd**2) - (size - 2) * grid - squares[:, None] / (2 * variance)
    log_density -= 0.5 * np.log(between) + size * ((middle - mean) ** 2)[:, None] / (2 * between)
    spread = np.exp(_draw(grid, log_density, rng))
    precision = size / spread**2 + 1 / log_sd**2
    expected = (size * middle / spread**2 + mean / log_sd**2) / precision
    return spread, expected + rng.standard_normal(len(spread)) / np.sqrt(precision)


def _grid(squares: np.ndarray, size: int, sd: float) -> np.ndarray:
    """Log spreads ``(S, NODES)`` that hold the density given sums of `size` squares.

    In u = log spread it is -spread^2 / (2 sd^2) - (size - 1) u - squares / (2 spread^2) up to a smooth factor.
    """
    squares = np.maximum(squares, 1e-200)
    rest = max(size - 1, 0)
    variance = 2 * squares / (rest + np.sqrt(rest**2 + 4 * squares / sd**2))
    mode = 0.5 * np.log(variance)
    width = REACH / np.sqrt(2 * variance / sd**2 + 2 * squares / variance)
    upper = np.minimum(mode + np.maximum(width, DOWN / max(rest, 1e-9)), np.maximum(mode + width, np.log(9 * sd)))
    return (mode - width)[:, None] + np.linspace(0, 1, NODES) * (upper - mode + width)[:, None]


def _draw(grid: np.ndarray, log_density: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw of each row ``(S, NODES)``, by the distribution function of a density that is linear between nodes."""
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    mass = np.cumsum(density[:, 1:] + density[:, :-1], axis=1)
    u = rng.random(len(grid)) * mass[:, -1]
    cell = np.minimum((mass < u[:, None]).sum(axis=1), NODES - 2)
    row = np.arange(len(grid))
    left, right = density[row, cell], density[row, cell + 1]
    rest = u - np.where(cell > 0, mass[row, cell - 1], 0.0)
    # the share of the cell: the root of left share + (right - left) share^2 / 2 = rest / 2
    root = np.sqrt(np.maximum(left**2 + (right - left) * rest, 0.0))
    share = np.clip(rest / np.maximum(left + root, 1e-300), 0.0, 1.0)
    return grid[row, cell] + share * (grid[row, cell + 1] - grid[row, cell])
