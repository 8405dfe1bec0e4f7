"""A graph of ONNX operations, written down as arithmetic."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # an extra: only who exports needs it
    from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

__all__ = ["Graph", "Value"]

# Old enough for every runtime of the last years: nothing newer is needed.
OPSET, FORMAT = 17, 8

Constant = float | npt.NDArray[Any]
Body = Callable[
    [list["Value"], list["Value"]], tuple[Sequence["Value"], Sequence["Value"]]
]


class Value:
    """A tensor of the graph; arithmetic with it adds operations.

    Parameters
    ----------
    graph
        Where it is.
    name
        Its name there.
    """

    def __init__(self, graph: "Graph", name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: "Value | Constant") -> "Value":
        return self.graph.add("Add", self, other)

    def __sub__(self, other: "Value | Constant") -> "Value":
        return self.graph.add("Sub", self, other)

    def __rsub__(self, other: Constant) -> "Value":
        return self.graph.add("Sub", other, self)

    def __mul__(self, other: "Value | Constant") -> "Value":
        return self.graph.add("Mul", self, other)

    def __truediv__(self, other: "Value | Constant") -> "Value":
        return self.graph.add("Div", self, other)

    def __neg__(self) -> "Value":
        return self.graph.add("Neg", self)

    def __lt__(self, other: "Value | Constant") -> "Value":
        return self.graph.add("Less", self, other)

    def __ge__(self, other: "Value | Constant") -> "Value":
        return self.graph.add("GreaterOrEqual", self, other)

    def exp(self) -> "Value":
        """Exponential."""
        return self.graph.add("Exp", self)

    def log(self) -> "Value":
        """Logarithm."""
        return self.graph.add("Log", self)

    def abs(self) -> "Value":
        """Absolute value."""
        return self.graph.add("Abs", self)

    def sqrt(self) -> "Value":
        """Square root."""
        return self.graph.add("Sqrt", self)

    def reciprocal(self) -> "Value":
        """One over it."""
        return self.graph.add("Reciprocal", self)

    def clip(self, low: float = -np.inf, high: float = np.inf) -> "Value":
        """Bring into ``[low, high]``."""
        value = self
        if low > -np.inf:
            value = self.graph.add("Max", value, low)
        return self.graph.add("Min", value, high) if high < np.inf else value

    def sum(self, axis: int) -> "Value":
        """Sum over an axis, which goes."""
        axes = np.array([axis])
        return self.graph.add("ReduceSum", self, axes, keepdims=0)

    def least(self, axis: int) -> "Value":
        """Minimum over an axis, which goes."""
        return self.graph.add("ReduceMin", self, axes=[axis], keepdims=0)

    def largest(self, axis: int) -> "Value":
        """Maximum over an axis, which goes."""
        return self.graph.add("ReduceMax", self, axes=[axis], keepdims=0)

    def take(self, places: npt.NDArray[np.int64], axis: int = 0) -> "Value":
        """Entries along an axis, which goes if ``places`` is one number."""
        return self.graph.add("Gather", self, places, axis=axis)

    def rows(self, start: int, end: int | None) -> "Value":
        """Entries from ``start`` to ``end`` of the first axis."""
        stop = np.iinfo(np.int64).max if end is None else end
        ends = np.array([start]), np.array([stop]), np.array([0])
        return self.graph.add("Slice", self, *ends)

    def reshape(self, *shape: int) -> "Value":
        """As numpy's, with -1 for what is left."""
        return self.graph.add("Reshape", self, np.array(shape))

    def expand(self, axis: int) -> "Value":
        """Insert an axis of length 1."""
        return self.graph.add("Unsqueeze", self, np.array([axis]))

    def cast(self, dtype: type[np.floating[Any]]) -> "Value":
        """In another float type."""
        return self.graph.add("Cast", self, to=_type_of(np.dtype(dtype)))


class Graph:
    """Operations in the order in which they were added."""

    def __init__(self) -> None:
        self._scopes: list[list[NodeProto]] = [[]]
        self._constants: dict[tuple[str, tuple[int, ...], bytes], TensorProto] = {}
        self._count = 0

    def add(self, operation: str, *inputs: Value | Constant, **options: Any) -> Value:  # noqa: ANN401
        """Add an operation with one result."""
        return self.add_many(operation, inputs, 1, **options)[0]

    def add_many(
        self,
        operation: str,
        inputs: Sequence[Value | Constant],
        results: int,
        **options: Any,  # noqa: ANN401  (attributes of any kind)
    ) -> list[Value]:
        """Add an operation with several results."""
        from onnx import helper

        names = [self._name_of(each) for each in inputs]
        made = [self._fresh() for _ in range(results)]
        node = helper.make_node(operation, names, made, **options)
        self._scopes[-1].append(node)
        return [Value(self, name) for name in made]

    def where(
        self, condition: Value, yes: Value | Constant, no: Value | Constant
    ) -> Value:
        """Choose between two values."""
        return self.add("Where", condition, yes, no)

    def join(self, parts: Sequence[Value]) -> Value:
        """Lay values one after the other along the first axis."""
        if len(parts) == 1:
            return parts[0]
        return self.add("Concat", *parts, axis=0)

    def total(self, parts: Sequence[Value]) -> Value:
        """Sum of values."""
        result = parts[0]
        for part in parts[1:]:
            result = result + part
        return result

    def scan(
        self,
        state: Sequence[Value],
        inputs: Sequence[Value | Constant],
        body: Body,
        *,
        axes: int,
    ) -> list[Value]:
        """Go along the first axis of the inputs.

        Parameters
        ----------
        state
            What is carried on from step to step, at the start, float64.
        inputs
            What is gone through, float64, all of one length.
        body
            State and inputs of one step to the next state and any outputs.
        axes
            Number of axes of each state and output; older runtimes do not find out.

        Returns
        -------
        list of Value
            The state after the last step, then the outputs, stacked.
        """
        from onnx import helper

        given = [self._fresh() for _ in (*state, *inputs)]
        handed = [Value(self, name) for name in given]
        self._scopes.append([])
        after, made = body(handed[: len(state)], handed[len(state) :])
        # A result must be one of the body's own operations.
        results = [self.add("Identity", each).name for each in (*after, *made)]
        inner = helper.make_graph(
            self._scopes.pop(), self._fresh(), _open(given), _open(results, axes)
        )
        return self.add_many(
            "Scan",
            [*state, *inputs],
            len(results),
            body=inner,
            num_scan_inputs=len(inputs),
        )

    def finished(
        self,
        name: str,
        inputs: "Sequence[ValueInfoProto]",
        outputs: "Sequence[ValueInfoProto]",
    ) -> "GraphProto":
        """Return the whole graph."""
        from onnx import helper

        constants = list(self._constants.values())
        return helper.make_graph(self._scopes[0], name, inputs, outputs, constants)

    def named(self, value: Value, name: str) -> None:
        """Give a result its name to the outside."""
        from onnx import helper

        self._scopes[-1].append(helper.make_node("Identity", [value.name], [name]))

    def _name_of(self, value: Value | Constant) -> str:
        if isinstance(value, Value):
            return value.name
        from onnx import numpy_helper

        number = isinstance(value, float | int)
        array = np.asarray(value, dtype=np.float64 if number else None)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            tensor = numpy_helper.from_array(array, self._fresh())
            self._constants[key] = tensor
        return self._constants[key].name

    def _fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _open(names: Sequence[str], axes: int | None = None) -> "list[ValueInfoProto]":
    """Float64 tensors of any lengths, with this many axes or any number of them."""
    from onnx import TensorProto, helper

    shape = None if axes is None else [None] * axes
    return [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name in names
    ]


def _type_of(dtype: np.dtype[Any]) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))
