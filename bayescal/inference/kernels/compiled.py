"""A log density with its gradient, compiled by numba: one node of the graph.

The function takes a vector and arrays of data, and returns the log density and its gradient in the vector.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key


class Compiled(Op):
    """Log density and gradient, two outputs, from a vector ``(d,)`` and data.

    `name` and `version` tell compiled functions apart in PyTensor's disk cache.
    """

    __props__ = ("name", "version")

    def __init__(self, function: Callable[..., Any], version: int) -> None:
        self.function, self.name, self.version = function, function.__name__, version

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(value) for value in inputs]
        return Apply(self, variables, [pt.dscalar(), variables[0].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        del node
        value, gradient = self.function(*inputs)
        output_storage[0][0], output_storage[1][0] = np.asarray(value), gradient

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        return [cotangents[0] * outputs[1], *(disconnected_type() for _ in inputs[1:])]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True, False], *([False, False] for _ in node.inputs[1:])]


@register_funcify_default_op_cache_key(Compiled)
def _compile(op: Compiled, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    del node, kwargs
    function = numba_basic.numba_njit(getattr(op.function, "py_func", op.function))

    @numba_basic.numba_njit
    def compiled(*inputs: Any) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = function(*inputs)
        return np.asarray(value), gradient

    return compiled, op.version
