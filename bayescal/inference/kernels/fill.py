"""Coefficients of a monotone surface from the log-odds of its sticks: one node of the graph, with its gradient.

The rule is that of `bayescal.calibrators.surface`; unrolled in PyTensor it takes some fifty nodes, which compile in
tens of seconds.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

VERSION = 2  # of the kernels below; PyTensor's disk cache holds compiled ones by it


def fill_nodes(
    z: np.ndarray, order: np.ndarray, side: np.ndarray, neighbours: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """beta and 1 - beta ``(N,)`` from log-odds of sticks ``(N,)``.

    Nodes are visited in `order`, from the middle level outwards; `side` says where a node lies, `neighbours` ``(N, M)``
    which nodes one step inwards bound it.
    """
    beta, rest = np.empty_like(z), np.empty_like(z)
    for i in order:
        up, down = 1.0 / (1.0 + np.exp(-z[i])), 1.0 / (1.0 + np.exp(z[i]))
        if side[i] == 0:
            beta[i], rest[i] = up, down
            continue
        j = neighbours[i, 0]
        for k in neighbours[i]:
            if side[i] * (beta[k] - beta[j] if beta[j] < 0.5 else rest[j] - rest[k]) > 0:  # the exact difference
                j = k
        if side[i] > 0:
            beta[i], rest[i] = beta[j] + rest[j] * up, rest[j] * down
        else:
            beta[i], rest[i] = beta[j] * up, rest[j] + beta[j] * down
    return beta, rest


def fill_nodes_gradient(
    z: np.ndarray,
    order: np.ndarray,
    side: np.ndarray,
    neighbours: np.ndarray,
    beta: np.ndarray,
    rest: np.ndarray,
    beta_bar: np.ndarray,
    rest_bar: np.ndarray,
) -> np.ndarray:
    """Gradient ``(N,)`` in z of ``sum(beta_bar * beta + rest_bar * rest)``; where neighbours tie, of one branch."""
    b, r = beta_bar.copy(), rest_bar.copy()
    gradient = np.empty_like(z)
    for i in order[::-1]:
        up, down = 1.0 / (1.0 + np.exp(-z[i])), 1.0 / (1.0 + np.exp(z[i]))
        if side[i] == 0:
            gradient[i] = up * down * (b[i] - r[i])
            continue
        j = neighbours[i, 0]
        for k in neighbours[i]:
            if side[i] * (beta[k] - beta[j] if beta[j] < 0.5 else rest[j] - rest[k]) > 0:  # the exact difference
                j = k
        if side[i] > 0:
            gradient[i] = up * down * rest[j] * (b[i] - r[i])
            b[j] += b[i]
            r[j] += b[i] * up + r[i] * down
        else:
            gradient[i] = up * down * beta[j] * (b[i] - r[i])
            b[j] += b[i] * up + r[i] * down
            r[j] += r[i]
    return gradient


class Fill(Op):
    """beta and 1 - beta, two outputs, from z, order, side and neighbours."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, variables, [variables[0].type(), variables[0].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        del node
        output_storage[0][0], output_storage[1][0] = fill_nodes(*inputs)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        bars = [pt.zeros_like(inputs[0]) if "Disconnected" in type(c.type).__name__ else c for c in cotangents]
        return [FillGradient()(*inputs, *outputs, *bars), *(disconnected_type() for _ in range(3))]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        del node
        return [[True, True], [False, False], [False, False], [False, False]]


def fill_sticks(z: Any, order: np.ndarray, side: np.ndarray, neighbours: np.ndarray) -> tuple[Any, Any]:
    """`fill_nodes` for a vector of the graph."""
    beta, rest = Fill().make_node(z, order, side, neighbours).outputs
    return beta, rest


class FillGradient(Op):
    """The gradient of `Fill` in z."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, variables, [variables[0].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        del node
        output_storage[0][0] = fill_nodes_gradient(*inputs)


@register_funcify_default_op_cache_key(Fill)
def _compile_fill(op: Fill, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    del op, node, kwargs
    return numba_basic.numba_njit(fill_nodes), VERSION


@register_funcify_default_op_cache_key(FillGradient)
def _compile_fill_gradient(op: FillGradient, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    del op, node, kwargs
    return numba_basic.numba_njit(fill_nodes_gradient), VERSION
