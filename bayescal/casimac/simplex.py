"""The regular simplex whose vertices are the classes, its cones, and the map that squeezes the latent space into it.

    p_1 .. p_n in R^(n-1),      sum_y p_y = 0,      |p_y| = 1,      p_y . p_k = -1 / (n - 1)
    cone_y = {z : |z - p_y| = min_k |z - p_k|} = {z : p_y . z >= p_k . z for all k}
    compress(z) = sum_y w_y p_y,      w = softmax(p_1 . z, .., p_n . z)

Compression is one to one from the latent space onto the inside of the simplex, smooth both ways, and leaves every cone
in its place: p_y . compress(z) = (n w_y - 1) / (n - 1) is ordered over the classes as w_y is, and w_y as p_y . z.

Heese, Schmid, Walczak & Bortz, "Calibrated simplex-mapping classification": eqs. 10 (simplex), 11 and 31 (cones),
27 and 32 (the first cone), 38 and 39 (what a compression must do).
"""

import numpy as np
from scipy.linalg import helmert
from scipy.special import logsumexp

TIE = 1e-12  # of the latent's length: closer than that to a border between cones, the first cone has it


def simplex_vertices(n_classes: int) -> np.ndarray:
    """Vertices ``(n, n - 1)`` of the simplex; of two classes -1 and 1."""
    return -np.sqrt(n_classes / (n_classes - 1)) * helmert(n_classes).T


def first_cone(z: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Number of the first cone ``(m,)`` that holds each latent ``(m, n - 1)``."""
    heights = z @ vertices.T
    near = heights >= heights.max(axis=1, keepdims=True) - TIE * np.linalg.norm(z, axis=1, keepdims=True)
    return near.argmax(axis=1)


def compress(z: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Points ``(m, n - 1)`` of the inside of the simplex for latents ``(m, n - 1)``."""
    heights = z @ vertices.T
    return np.exp(heights - logsumexp(heights, axis=1, keepdims=True)) @ vertices


def decompress(points: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """The inverse of `compress`."""
    n = len(vertices)
    logs = np.log(barycentric(points, vertices))
    return (n - 1) / n * (logs - logs.mean(axis=1, keepdims=True)) @ vertices


def barycentric(points: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Weights ``(m, n)``, summing to 1, of the vertices in points ``(m, n - 1)``."""
    n = len(vertices)
    return ((n - 1) * points @ vertices.T + 1) / n
