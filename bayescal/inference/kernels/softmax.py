"""Log likelihood of scaled logits of C classes, with its gradient in scales and biases: one node of the graph.

    log L = sum_r (sum_k n_rk eta_rk - n_r log sum_k exp(eta_rk)),      eta_rk = scale_k x_rk + bias_k

The graph that PyTensor makes of it goes through all rows for each of some fifteen operations, and its exponential is
not vectorised. Here rows are taken in blocks that stay in the cache, class by class, and value and gradient come of one
pass.
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
BLOCK = 128  # rows
LOWEST = -700.0  # of an exponent; exp(-700) is 1e-304


def log_likelihood(
    x: np.ndarray, counts: np.ndarray, totals: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """log L and its gradient in scale ``(C,)`` and bias ``(C,)``; x and counts ``(m, C)``, totals ``(m,)``."""
    eta = scale * x + bias
    top = eta.max(axis=1, keepdims=True)
    p = np.exp(eta - top)
    total = p.sum(axis=1, keepdims=True)
    rest = counts - totals[:, None] * p / total
    value = (counts * eta).sum() - totals @ (top + np.log(total))[:, 0]
    return float(value), (rest * x).sum(axis=0), rest.sum(axis=0)


def kernel(
    x: np.ndarray, counts: np.ndarray, totals: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, for numba. exp(z) is 2^k exp(r) with k whole and |r| <= log(2) / 2, by its series to r^13 / 13!."""
    m, c = x.shape
    value = 0.0
    by_scale, by_bias = np.zeros(c), np.zeros(c)
    columns, p = np.empty((c, BLOCK)), np.empty((c, BLOCK))
    top, total = np.empty(BLOCK), np.empty(BLOCK)
    power = np.empty(BLOCK, dtype=np.int64)
    factor = power.view(np.float64)
    for start in range(0, m, BLOCK):
        n = min(BLOCK, m - start)
        top[:n] = -np.inf
        total[:n] = 0.0
        for k in range(c):
            a, b = scale[k], bias[k]
            seen, seen_x = 0.0, 0.0
            for r in range(n):
                here = x[start + r, k]
                eta = a * here + b
                columns[k, r] = here
                p[k, r] = eta
                top[r] = max(top[r], eta)
                count = counts[start + r, k]
                seen += count
                seen_x += count * here
            value += a * seen_x + b * seen
            by_scale[k] += seen_x
            by_bias[k] += seen
        for k in range(c):
            for r in range(n):
                z = max(p[k, r] - top[r], LOWEST)
                whole = np.rint(z * 1.4426950408889634)
                power[r] = (np.int64(np.int32(whole)) + 1023) << 52
                z = (z - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10  # log 2 in two parts
                s = 1.0 / 6227020800.0
                s = s * z + 1.0 / 479001600.0
                s = s * z + 1.0 / 39916800.0
                s = s * z + 1.0 / 3628800.0
                s = s * z + 1.0 / 362880.0
                s = s * z + 1.0 / 40320.0
                s = s * z + 1.0 / 5040.0
                s = s * z + 1.0 / 720.0
                s = s * z + 1.0 / 120.0
                s = s * z + 1.0 / 24.0
                s = s * z + 1.0 / 6.0
                s = s * z + 0.5
                s = s * z + 1.0
                p[k, r] = s * z + 1.0
            for r in range(n):
                p[k, r] *= factor[r]
                total[r] += p[k, r]
        for r in range(n):
            value -= totals[start + r] * (top[r] + np.log(total[r]))
            total[r] = totals[start + r] / total[r]
        for k in range(c):
            mean, mean_x = 0.0, 0.0
            for r in range(n):
                share = p[k, r] * total[r]
                mean += share
                mean_x += share * columns[k, r]
            by_bias[k] -= mean
            by_scale[k] -= mean_x
    return np.asarray(value), by_scale, by_bias


class LogLikelihood(Op):
    """log L and its gradient in scale and bias, three outputs, from x, counts, totals, scale and bias."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, variables, [pt.dscalar(), pt.dvector(), pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        del node
        value, by_scale, by_bias = log_likelihood(*inputs)
        output_storage[0][0] = np.asarray(value)
        output_storage[1][0], output_storage[2][0] = by_scale, by_bias

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        del inputs
        bar = cotangents[0]  # of the value alone: nothing depends on the other two but the gradient itself
        return [*(disconnected_type() for _ in range(3)), bar * outputs[1], bar * outputs[2]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        del node
        return [*([[False] * 3] * 3), *([[True, False, False]] * 2)]


def scaled_log_likelihood(x: Any, counts: Any, totals: Any, scale: Any, bias: Any) -> Any:
    """log L of variables of the graph."""
    return LogLikelihood().make_node(x, counts, totals, scale, bias).outputs[0]


@register_funcify_default_op_cache_key(LogLikelihood)
def _compile(op: LogLikelihood, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    del op, node, kwargs
    return numba_basic.numba_njit(kernel), VERSION
