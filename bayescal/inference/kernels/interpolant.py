"""A smooth log density on a plane by its Chebyshev coefficients: one node of the graph, with its gradient.

    f(u) = sum_ij C_ij T_i(u_1 / h) T_j(u_2 / h)      inside |u_1|, |u_2| <= h

and outside, f at the nearest point of the square less `WALL` times the squared distance to it.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

VERSION = 1  # of the kernel below; PyTensor's disk cache holds compiled ones by it
WALL = 50.0


def interpolate(u: np.ndarray, coefficients: np.ndarray, half_width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f ``()`` and its gradient ``(2,)`` at u ``(2,)``."""
    size = coefficients.shape[0]
    h = half_width.item()
    t, d = np.empty((2, size)), np.empty((2, size))
    value, gradient = 0.0, np.zeros(2)
    for axis in range(2):
        inside = min(max(u[axis], -h), h)
        beyond = u[axis] - inside
        value -= WALL * beyond * beyond
        gradient[axis] = -2.0 * WALL * beyond
        x = inside / h
        slope = 1.0 / h if beyond == 0.0 else 0.0
        t[axis, 0], t[axis, 1] = 1.0, x
        d[axis, 0], d[axis, 1] = 0.0, slope
        for i in range(2, size):
            t[axis, i] = 2.0 * x * t[axis, i - 1] - t[axis, i - 2]
            d[axis, i] = 2.0 * (slope * t[axis, i - 1] + x * d[axis, i - 1]) - d[axis, i - 2]
    for i in range(size):
        along, its_slope = 0.0, 0.0
        for j in range(size):
            along += coefficients[i, j] * t[1, j]
            its_slope += coefficients[i, j] * d[1, j]
        value += t[0, i] * along
        gradient[0] += d[0, i] * along
        gradient[1] += t[0, i] * its_slope
    return np.asarray(value), gradient


class Interpolant(Op):
    """f and its gradient, two outputs, from u, coefficients ``(m, m)`` and half width."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        u, coefficients, half_width = (pt.as_tensor_variable(value) for value in inputs)
        return Apply(self, [u, coefficients, half_width], [pt.dscalar(), u.type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        del node
        output_storage[0][0], output_storage[1][0] = interpolate(*inputs)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        del inputs
        return [cotangents[0] * outputs[1], disconnected_type(), disconnected_type()]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        del node
        return [[True, False], [False, False], [False, False]]


def interpolant(u: Any, coefficients: Any, half_width: Any) -> Any:
    """`interpolate` for a vector of the graph, its value alone."""
    return Interpolant().make_node(u, coefficients, half_width).outputs[0]


@register_funcify_default_op_cache_key(Interpolant)
def _compile_interpolant(op: Interpolant, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    del op, node, kwargs
    return numba_basic.numba_njit(interpolate), VERSION
