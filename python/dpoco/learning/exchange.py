"""Models as ONNX files, which other programs apply without this library (extra ``onnx``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpoco.datasets import Schema

_OPSET = 18  # the first whose reductions take axes as an input, for all of them


class _Graph:
    """Nodes in order; every method adds some and returns the name of the last one's output."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        """Add a node; inputs that are no names are constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, names, [output], **attributes))
        return output

    def length(self, rows: str, q: float | None) -> str:
        """Return the norms ``||x||_q`` of rows, shape (n, 1)."""
        if q == 2.0:
            return self.add("ReduceL2", rows, np.array([1]))
        sizes = self.add("Abs", rows)
        if q is None:
            return self.add("ReduceMax", sizes, np.array([1]))
        powers = self.add("Pow", sizes, np.float64(q))
        return self.add("Pow", self.add("ReduceSum", powers, np.array([1])), np.float64(1.0 / q))


def build_onnx(
    schema: Schema,
    decision: Sequence[float],
    record_bounds: Sequence[tuple[float | None, float]],
    properties: Mapping[str, str],
) -> bytes:
    """Return the ONNX file of a decision and its properties; see `dpoco.Model.to_onnx`."""
    try:
        import onnx
    except ImportError:
        raise ImportError('to_onnx needs onnx: pip install "dpoco[onnx]"', name="onnx") from None
    graph, columns = _Graph(onnx.helper, onnx.numpy_helper), len(schema.features)
    broken = graph.add("IsNaN", "records")  # infinite values saturate
    flags = graph.add("Cast", broken, to=onnx.TensorProto.DOUBLE)
    worst = graph.add("ReduceMax", flags, np.array([1]))
    known = graph.add("Less", worst, np.float64(0.5))  # (n, 1)
    rows = graph.add("Where", broken, np.float64(0.0), "records")
    low, high = (np.array(side) for side in zip(*schema.ranges, strict=True))
    half = high / 2.0 - low / 2.0
    moved = graph.add("Sub", graph.add("Div", rows, half), (low / 2.0 + high / 2.0) / half)
    rows = graph.add("Clip", moved, np.float64(-1.0), np.float64(1.0))
    if schema.intercept:
        ones = graph.add("Expand", np.ones((1, 1)), graph.add("Shape", known))
        rows = graph.add("Concat", rows, ones, axis=1)
    for q, bound in record_bounds:
        length = graph.add("Max", graph.length(rows, q), np.float64(1e-300))
        factor = graph.add("Min", graph.add("Div", np.float64(bound), length), np.float64(1.0))
        rows = graph.add("Mul", rows, factor)
    margins = graph.add("MatMul", rows, np.array(decision)[:, None])
    if schema.task == "classification":
        bottom, top = 0.0, 1.0
        share = graph.add("Tanh", graph.add("Mul", margins, np.float64(0.5)))
    else:
        bottom, top = schema.label_range or (-1.0, 1.0)
        share = graph.add("Clip", margins, np.float64(-1.0), np.float64(1.0))
    part = graph.add("Mul", graph.add("Add", share, np.float64(1.0)), np.float64(0.5))
    answer = graph.add("Add", graph.add("Mul", part, np.float64(top - bottom)), np.float64(bottom))
    answer = graph.add("Where", known, answer, np.float64(np.nan))
    graph.add("Squeeze", answer, np.array([1]), output="prediction")
    double = onnx.TensorProto.DOUBLE
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes, "dpoco",
            [onnx.helper.make_tensor_value_info("records", double, ["n", columns])],
            [onnx.helper.make_tensor_value_info("prediction", double, ["n"])],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET)], ir_version=8,
        producer_name="dpoco",
    )  # fmt: skip
    onnx.helper.set_model_props(made, dict(properties))
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())
