"""A released decision as a file to share, with its features and how to apply it."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco._files import write_atomically
from dpoco._json import of_json
from dpoco._validation import Fields, FloatArray, Named, float_array, whole_number
from dpoco.accounting import Guarantee
from dpoco.datasets import PublicScaling, Schema, Stream
from dpoco.errors import StateError

_SCHEMA = "dpoco.model/1"
_CLASSES = (0, 1)


@dataclass(frozen=True, kw_only=True)
class Model(Schema):
    """A decision of a private learner, and all that is needed to apply it to new records.

    All fields are public: the decision and the estimated loss were released under the guarantee in
    the file, and the other fields were declared before there were data. The file has no exact
    count, mean or loss of records.

    Attributes
    ----------
    decision : tuple of float
        Coefficients of the scaled features, the constant's last.
    features, ranges, intercept, task, label, label_range, coding
        Names, public ranges and codes of the features, and the predicted quantity, as in a
        `dpoco.datasets.Schema`.
    record_bounds : tuple of (float or None, float)
        x||_q``, as they were when the learner read them. || Exponent q (None is infinity) and
        bound. A record with a larger norm ``||x||_q`` is scaled down to the bound, as the learner
        did with its records.||x||_q``, as they were when the learner read them.
    learner : str
        Name of the learner's class.
    round : int
        Rounds that the learner had played.
    guarantee : Guarantee
        Guarantee of all decisions up to the horizon together, including this one.
    created, version : str
        Date (UTC) and version of the library.
    estimated_loss : tuple of float or None
        Mean, deviation and rounds of the learner's `dpoco.oco.EstimatedLoss`, if it publishes one.
    covariance : tuple of tuples of float, or None
        Covariance of the noise in the decision, shape (d, d), if the learner publishes it; see the
        learner's `covariance`.

    Raises
    ------
    ValueError, TypeError
        If a field has another type or range, or does not fit the other fields.
    """

    decision: tuple[float, ...]
    record_bounds: tuple[tuple[float | None, float], ...]
    learner: str
    round: int
    guarantee: Guarantee
    created: str
    version: str
    estimated_loss: tuple[float, float, float] | None = None
    covariance: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.decision) != len(self.features) + int(self.intercept):
            raise ValueError("decision and features differ in length")
        if not all(map(_is_number, self.decision)):
            raise ValueError("the decision must be finite numbers")
        exponents = [q for q, _ in self.record_bounds]
        if not all(q is None or (_is_number(q) and q >= 1.0) for q in exponents):
            raise ValueError("the exponent of a bound must be a number from 1 on, or None")
        if len(exponents) > 2:
            raise ValueError("a record has at most two bounds")
        if not all(_is_number(bound) and bound > 0.0 for _, bound in self.record_bounds):
            raise ValueError("a bound must be a positive number")
        if not (isinstance(self.learner, str) and self.learner.isidentifier()):
            raise ValueError("the learner must be the name of a class")
        whole_number("round", self.round, 0, self.guarantee.horizon)
        datetime.date.fromisoformat(self.created)
        if not (isinstance(self.version, str) and self.version):
            raise TypeError("version must be a text")
        if self.estimated_loss is not None:
            _, deviation, rounds = self.estimated_loss
            if not all(map(_is_number, self.estimated_loss)) or deviation < 0.0 or rounds < 1.0:
                raise ValueError("the estimated loss must be a mean, its deviation and rounds")
        if self.covariance is not None:
            shape = {len(self.covariance), *map(len, self.covariance)}
            entries = [each for row in self.covariance for each in row]
            if shape != {len(self.decision)} or not all(map(_is_number, entries)):
                raise ValueError("the covariance must be as many finite rows as coefficients")
            if any(row[i] < 0.0 for i, row in enumerate(self.covariance)):
                raise ValueError("variances must be at least 0")

    @classmethod
    def of(cls, learner: Any, stream: Stream, label: str) -> Model:
        """Return the model with a learner's last released decision.

        Parameters
        ----------
        learner : learner of records, or a one-time fit that was fitted
            After at least one round.
        stream : Stream
            The stream that it learned from, for the names of columns and their public scaling.
        label : str
            Name of the label.

        Raises
        ------
        StateError
            If nothing was released, or the guarantee is not certified: seeded noise, no budget.
        ValueError
            If new records cannot be scaled as the stream was, or the learner's loss takes no
            labels.
        """
        return cls.of_schema(learner, stream.schema(label))

    @classmethod
    def of_schema(cls, learner: Any, schema: Schema) -> Model:
        """Return the model with a learner's last decision on such records; errors as in `of`.

        Parameters
        ----------
        learner : learner of records, or a one-time fit that was fitted
            As in `of`.
        schema : Schema
            Names, ranges and codes of the columns that it learned from.
        """
        guarantee: Guarantee = learner.guarantee
        if not guarantee.certified:
            raise StateError(
                "this decision cannot be published: its guarantee is not certified (seeded noise, "
                "no budget, or a state that was continued twice)"
            )
        if hasattr(learner, "fit"):
            decision, played = learner.theta, guarantee.horizon or 0
        else:
            decision, played = learner.last_decision, learner.round
            # The first decision does not depend on data; a model of it would suggest learning.
            if played == 0:
                raise StateError("the learner has released nothing yet")
        if not learner.loss.glm:
            raise ValueError("a model predicts labels: its learner must have a loss of labels")
        bounds = learner.loss.to_dict()
        # The learner's norm, which may differ from that of its domain, as for vertices of a box.
        dual = getattr(learner, "_domain", learner.domain).dual_exponent
        pairs = ((dual, bounds["feature_bound"]), (2.0, bounds["feature_bound_l2"]))
        # JSON has no infinity, so None stands for the maximum norm.
        stated = tuple(
            (None if np.isinf(q) else float(q), float(b)) for q, b in pairs if b is not None
        )
        loss = getattr(learner, "estimated_loss", None)
        spread = getattr(learner, "covariance", None)
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        return cls(
            **declarations(schema), decision=tuple(np.asarray(decision, np.float64).tolist()),
            record_bounds=stated, learner=type(learner).__name__, round=int(played),
            guarantee=guarantee, created=today, version=_core.__version__,
            estimated_loss=None if loss is None else (loss.mean, loss.deviation, loss.rounds),
            covariance=None if spread is None else tuple(map(tuple, spread.tolist())),
        )  # fmt: skip

    def after(self, learner: Any) -> Model:
        """Return this model with the last decision of a learner of the same problem; as `of`.

        The states that the command line writes name the columns that they learned from. The model
        refuses a state with other columns.
        """
        if learner.domain.dimension != len(self.decision):
            raise StateError("the learner's problem is not that of the model")
        newer = self.of_schema(learner, self)
        own = getattr(learner, "_described", None)
        difference = None if own is None else self.difference(Schema.from_dict(own["schema"]))
        if difference is not None:
            raise StateError(f"the learner's problem is not that of the model; {difference}")
        if self.record_bounds != newer.record_bounds:
            raise StateError("the learner's problem is not that of the model")
        return newer

    def predict(self, records: ArrayLike) -> FloatArray:
        """Return a prediction for each record; as post-processing it costs no privacy.

        Parameters
        ----------
        records : array_like of shape (n, d)
            The features in the order of the schema and in the units of its ranges; for a category,
            1 or 0.

        Returns
        -------
        ndarray of float64, shape (n,)
            Classification: the probability of the event, in [0, 1]. Regression: a number of the
            label's range, or of [-1, 1]. NaN for a record with a missing number. An infinite one
            counts as the end of its range.

        Raises
        ------
        ValueError, TypeError
            For another number of features, or another dtype.
        """
        rows = float_array("records", records, (None, len(self.features)))
        low, high = zip(*self.ranges, strict=True)
        rows = PublicScaling(low, high, intercept=self.intercept).apply(rows)
        # The scaling has moved infinite values into their range, so only missing values are left.
        known = np.isfinite(rows).all(axis=1)
        rows[~known] = 0.0
        for q, bound in self.record_bounds:
            lengths = record_lengths(rows, q)
            # The factor is 1 within the bound.
            rows *= (bound / np.maximum(lengths, bound))[:, None]
        margins = rows @ np.array(self.decision)
        if self.task == "classification":
            # This form of the logistic function cannot overflow, and the ONNX graph has it too.
            answer = 0.5 * (1.0 + np.tanh(0.5 * margins))
        else:
            bottom, top = self.label_range or (-1.0, 1.0)
            answer = bottom + 0.5 * (np.clip(margins, -1.0, 1.0) + 1.0) * (top - bottom)
        return np.where(known, answer, np.nan)

    def to_onnx(self) -> bytes:
        """Return the model as an ONNX file (extra ``onnx``), for programs without this library.

        Its input "records", doubles of shape (n, d), and its output "prediction", shape (n,), are
        those of `predict`, with ranges and bounds applied inside. Its property "model" is the text
        of this model, for `from_dict` and ``dpoco verify``; "guarantee" has the guarantee in words.
        """
        properties = {"guarantee": str(self.guarantee), "model": json.dumps(self.to_dict())}
        return build_onnx(self, self.decision, self.record_bounds, properties)

    def to_dict(self) -> Fields:
        """Return the model as a dictionary for JSON, with a checksum of all fields."""
        record = {
            "schema": _SCHEMA, "dpoco": self.version, "created": self.created,
            "learner": self.learner, "round": self.round,
            "classes": list(_CLASSES) if self.task == "classification" else None,
            "decision": list(self.decision), **Schema.to_dict(self),
            "record_bounds": [list(each) for each in self.record_bounds],
            "guarantee": self.guarantee.to_dict(),
        }  # fmt: skip
        if self.estimated_loss is not None:
            record["estimated_loss"] = list(self.estimated_loss)
        if self.covariance is not None:
            record["covariance"] = [list(row) for row in self.covariance]
        return {**record, "sha256": _checksum(record)}

    @classmethod
    def from_dict(cls, record: Named) -> Model:
        """Return the model that `to_dict` wrote, and compute its guarantee again.

        Raises
        ------
        StateError
            If the record is no model, is of a newer version or was changed, or if its guarantee
            does not follow from its description.
        """
        if not isinstance(record, Mapping) or not str(record.get("schema")).startswith(
            "dpoco.model/"
        ):
            raise StateError("this is no model of dpoco run --decision")
        if record["schema"] != _SCHEMA:
            raise StateError(f"this model is of a newer version of dpoco ({record['schema']})")
        content = {name: value for name, value in record.items() if name != "sha256"}
        try:
            if record.get("sha256") != _checksum(content):
                raise StateError(
                    "this model was changed after it was written: its checksum differs"
                )
            model = cls._read(record)
            # The first comparison ignores fields that no model has.
            same = _checksum(model.to_dict()) == _checksum(record)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            raise StateError("this model was changed: it cannot be read") from None
        if not same:
            raise StateError("this model was changed: it has other fields than a model")
        # The checksum detects accidents. This check detects numbers that do not follow from the
        # description.
        model.guarantee.verify()
        return model

    @classmethod
    def _read(cls, record: Named) -> Model:
        """Return the model of a record; any error of its types means that it is no model."""
        loss, spread = record.get("estimated_loss"), record.get("covariance")
        return cls(
            **declarations(Schema.from_dict(record)), decision=tuple(record["decision"]),
            record_bounds=tuple((q, bound) for q, bound in record["record_bounds"]),
            learner=record["learner"], round=record["round"],
            guarantee=Guarantee.from_dict(record["guarantee"]), created=record["created"],
            version=record["dpoco"], estimated_loss=None if loss is None else tuple(loss),
            covariance=None if spread is None else tuple(map(tuple, spread)),
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; a crash leaves the old file or the new one.

        Only the owner can read the file, as all files of the library. To publish it, change its
        mode.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        write_atomically(path, text.encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Return the model of a file; errors as in `from_dict`, and `OSError` if it is missing.

        This takes the time to certify the guarantee again.
        """
        try:
            record = of_json(Path(path).read_bytes())
        except StateError:
            raise StateError(
                f"{Path(path).name} is no model: it is not a JSON text, or names a field twice "
                "(dpoco publish writes the model of a saved learner)"
            ) from None
        return cls.from_dict(record)


def declarations(schema: Schema) -> Fields:
    """Return the fields of a schema."""
    return {each.name: getattr(schema, each.name) for each in fields(Schema)}


def record_lengths(rows: FloatArray, q: float | None) -> FloatArray:
    """Return the norms ``||x||_q`` of rows, shape (n,); q None is the maximum norm."""
    if q is None or q == 2.0:
        return np.asarray(np.linalg.norm(rows, ord=np.inf if q is None else q, axis=1))
    largest = np.abs(rows).max(axis=1, initial=np.finfo(float).tiny)
    # The division comes first, since powers with a large q underflow, and a long record would count
    # as short.
    return np.asarray(largest * np.linalg.norm(rows / largest[:, None], ord=q, axis=1))


def _is_number(value: object) -> bool:
    """Return whether a value is a finite number; a bool is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _checksum(record: Named) -> str:
    """Return a digest that detects accidental changes, but not deliberate ones."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


# ---- ONNX ----------------------------------------------------------------------------------------

# The first opset in which all reductions take axes as an input.
_OPSET = 18


class _Graph:
    """A graph under construction; methods add nodes and return the name of the last output."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        """Add a constant, and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        """Add a node; inputs that are not names become constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, names, [output], **attributes))
        return output

    def length(self, rows: str, q: float | None) -> str:
        """Return the norms ``||x||_q`` of rows, shape (n, 1), as `record_lengths` does."""
        if q == 2.0:
            return self.add("ReduceL2", rows, np.array([1]))
        sizes = self.add("Abs", rows)
        most = self.add("ReduceMax", sizes, np.array([1]))
        if q is None:
            return most
        largest = self.add("Max", most, np.finfo(float).tiny)
        powers = self.add("Pow", self.add("Div", sizes, largest), np.float64(q))
        root = self.add("Pow", self.add("ReduceSum", powers, np.array([1])), np.float64(1.0 / q))
        return self.add("Mul", largest, root)


def build_onnx(
    schema: Schema,
    decision: Sequence[float],
    record_bounds: Sequence[tuple[float | None, float]],
    properties: Mapping[str, str],
) -> bytes:
    """Return the ONNX file of a decision and its properties; see `dpoco.Model.to_onnx`.

    Parameters
    ----------
    schema : Schema
        Names, ranges and codes of the features, and the predicted quantity.
    decision : sequence of float
        Coefficients of the scaled features, the constant's last.
    record_bounds : sequence of (float or None, float)
        Exponents of norms, None for the maximum norm, and the bounds to which records are scaled
        down.
    properties : mapping of str to str
        Texts for the file's properties.

    Raises
    ------
    ImportError
        Without onnx.
    """
    try:
        import onnx
    except ImportError:
        raise ImportError('to_onnx needs onnx: pip install "dpoco[onnx]"', name="onnx") from None
    graph, columns = _Graph(onnx.helper, onnx.numpy_helper), len(schema.features)
    broken = graph.add("IsNaN", "records")  # infinite values saturate
    flags = graph.add("Cast", broken, to=onnx.TensorProto.DOUBLE)
    # The maximum is taken of doubles, since in this opset it does not accept booleans.
    worst = graph.add("ReduceMax", flags, np.array([1]))
    known = graph.add("Less", worst, np.float64(0.5))  # (n, 1)
    rows = graph.add("Where", broken, np.float64(0.0), "records")
    low, high = (np.array(side) for side in zip(*schema.ranges, strict=True))
    # The bounds are halved first, since the width of a range may overflow.
    half = high / 2.0 - low / 2.0
    moved = graph.add("Sub", graph.add("Div", rows, half), (low / 2.0 + high / 2.0) / half)
    rows = graph.add("Clip", moved, np.float64(-1.0), np.float64(1.0))
    if schema.intercept:
        ones = graph.add("Expand", np.ones((1, 1)), graph.add("Shape", known))
        rows = graph.add("Concat", rows, ones, axis=1)
    for q, bound in record_bounds:
        length = graph.add("Max", graph.length(rows, q), np.float64(bound))
        factor = graph.add("Div", np.float64(bound), length)
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
