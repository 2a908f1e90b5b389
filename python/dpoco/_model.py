"""A released decision as a file that others may have: what it is of, and how it is applied."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpoco import _core
from dpoco._state import write_atomically
from dpoco._validation import FloatArray, float_array, whole_number
from dpoco.accounting import Guarantee
from dpoco.datasets import PublicScaling, Stream
from dpoco.errors import StateError

_SCHEMA = "dpoco.model/1"
_CLASSES = (0, 1)


@dataclass(frozen=True)
class Model:
    """A decision of a private learner, and all that is needed to apply it to new records.

    Everything in it is public: the decision was released under the guarantee that comes with it,
    and the rest was declared before there were data. It holds no count, mean or loss of records.

    Attributes
    ----------
    decision : tuple of float
        Coefficients of the scaled features, the constant's last.
    features : tuple of str
        Names of the columns, without the constant.
    ranges : tuple of (float, float)
        Declared range of each column, mapped to [-1, 1]; values outside saturate.
    intercept : bool
        Whether a constant feature of 1 is appended.
    task : {"classification", "regression"}
        Whether predictions are probabilities of the event, or numbers.
    label : str
        Name of what is predicted.
    label_range : (float, float) or None
        Of a regression: declared range of the label, mapped to [-1, 1].
    record_bounds : tuple of (float or None, float)
        Exponent q (None is infinity) and bound: longer records are shortened to it in ``||x||_q``,
        as they were when the learner read them.
    learner : str
        Name of the learner's class.
    round : int
        Rounds that the learner had played.
    guarantee : Guarantee
        Of all decisions up to the horizon together, this one among them.
    created, version : str
        Date (UTC) and version of the library.
    """

    decision: tuple[float, ...]
    features: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]
    intercept: bool
    task: str
    label: str
    label_range: tuple[float, float] | None
    record_bounds: tuple[tuple[float | None, float], ...]
    learner: str
    round: int
    guarantee: Guarantee
    created: str
    version: str

    def __post_init__(self) -> None:
        sizes = len(self.features), len(self.ranges), len(self.decision) - int(self.intercept)
        if len(set(sizes)) > 1 or not self.features:
            raise ValueError("decision, features and ranges differ in length")
        whole_number("round", self.round)
        if not np.isfinite(float_array("decision", self.decision, (None,))).all():
            raise ValueError("the decision must be finite")
        low, high = zip(*self.ranges, strict=True)
        PublicScaling(low, high)
        if self.label_range is not None:
            PublicScaling(*self.label_range)

    @classmethod
    def of(cls, learner: Any, stream: Stream, label: str) -> Model:
        """Return the model of what a learner released last.

        Parameters
        ----------
        learner : learner of records, or a one-time fit that was fitted
            After at least one round.
        stream : Stream
            What it learned from, for the names of columns and their public scaling.
        label : str
            Name of the label.

        Raises
        ------
        StateError
            If nothing was released, or without a guarantee: seeded noise, no budget.
        ValueError
            If the stream has been scaled in a way that new records cannot be.
        """
        if stream.transform is None:
            raise ValueError("a model needs the declared ranges of its columns: stream.scaled(...)")
        intercept = bool(stream.transform.intercept)
        ranges = stream.transform.ranges(stream.feature_names)
        own = stream.label_transform if stream.task == "regression" else None
        label_range = None
        if own is not None:
            bottom, top = own._bounds
            label_range = float(bottom[0]), float(top[0])
        pairs = tuple((low, high) for low, high in ranges.values())
        empty = cls(
            (0.0,) * stream.dimension, tuple(ranges), pairs, intercept, stream.task, label,
            label_range, (), "", 0, learner.guarantee, "", "",
        )  # fmt: skip
        return empty.after(learner)

    def after(self, learner: Any) -> Model:
        """Return the model with what a learner of the same problem released last; as `of`."""
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
            if played == 0:
                raise StateError("the learner has released nothing yet")
        bounds = learner.loss.to_dict()
        dual = learner.domain.dual_exponent
        pairs = ((dual, bounds["feature_bound"]), (2.0, bounds["feature_bound_l2"]))
        stated = tuple(
            (None if np.isinf(q) else float(q), float(b)) for q, b in pairs if b is not None
        )
        if self.record_bounds not in ((), stated) or len(decision) != len(self.decision):
            raise StateError("the learner's problem is not that of the model")
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        return replace(
            self, decision=tuple(np.asarray(decision, np.float64).tolist()), record_bounds=stated,
            learner=type(learner).__name__, round=int(played), guarantee=guarantee, created=today,
            version=_core.__version__,
        )  # fmt: skip

    def predict(self, records: Any) -> FloatArray:
        """Return a prediction for each record: post-processing, it costs no privacy.

        Parameters
        ----------
        records : array_like of shape (n, d)
            Columns in the order of `features`, in the units of `ranges`.

        Returns
        -------
        ndarray of float64, shape (n,)
            Classification: the probability of the event, in [0, 1]. Regression: a number of
            `label_range`, or of [-1, 1]. NaN for a record that is not finite.
        """
        rows = float_array("records", records, (None, len(self.features)))
        low, high = zip(*self.ranges, strict=True)
        rows = PublicScaling(low, high, intercept=self.intercept).apply(rows)
        known = np.isfinite(rows).all(axis=1)
        rows[~known] = 0.0
        for q, bound in self.record_bounds:
            lengths = np.linalg.norm(rows, ord=np.inf if q is None else q, axis=1)
            rows *= np.minimum(1.0, bound / np.maximum(lengths, 1e-300))[:, None]
        margins = rows @ np.array(self.decision)
        if self.task == "classification":
            answer = 0.5 * (1.0 + np.tanh(0.5 * margins))
        else:
            bottom, top = self.label_range or (-1.0, 1.0)
            answer = bottom + 0.5 * (np.clip(margins, -1.0, 1.0) + 1.0) * (top - bottom)
        return np.where(known, answer, np.nan)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as JSON carries it, with a checksum of all of it."""
        record = {
            "schema": _SCHEMA, "dpoco": self.version, "created": self.created,
            "learner": self.learner, "round": self.round, "task": self.task, "label": self.label,
            "classes": list(_CLASSES) if self.task == "classification" else None,
            "decision": list(self.decision), "features": list(self.features),
            "ranges": [list(each) for each in self.ranges], "intercept": self.intercept,
            "label_range": None if self.label_range is None else list(self.label_range),
            "record_bounds": [list(each) for each in self.record_bounds],
            "guarantee": self.guarantee.to_dict(),
        }  # fmt: skip
        return {**record, "sha256": _checksum(record)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Model:
        """Return the model that `to_dict` made, its guarantee computed again.

        Raises
        ------
        StateError
            If it is none, is of a newer version, was changed, or its guarantee does not follow.
        """
        if not isinstance(record, Mapping) or not str(record.get("schema")).startswith(
            "dpoco.model/"
        ):
            raise StateError("this is no model of dpoco run --decision")
        if record["schema"] != _SCHEMA:
            raise StateError(f"this model is of a newer version of dpoco ({record['schema']})")
        content = {name: value for name, value in record.items() if name != "sha256"}
        if record.get("sha256") != _checksum(content):
            raise StateError("this model was changed after it was written: its checksum differs")
        try:
            model = cls._read(record)
        except (LookupError, TypeError, ValueError):
            raise StateError("this model was changed: it cannot be read") from None
        if model.to_dict() != record:
            raise StateError("this model was changed: it has other fields than a model")
        model.guarantee.verify()
        return model

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> Model:
        label_range = record["label_range"]
        return cls(
            tuple(record["decision"]), tuple(record["features"]),
            tuple((low, high) for low, high in record["ranges"]), record["intercept"],
            record["task"], record["label"], None if label_range is None else tuple(label_range),
            tuple((q, bound) for q, bound in record["record_bounds"]), record["learner"],
            record["round"], Guarantee.from_dict(record["guarantee"]), record["created"],
            record["dpoco"],
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; a crash leaves the old file or the new one."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        write_atomically(path, text.encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Return the model of a file; errors as of `from_dict`."""
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refused)
        except (ValueError, RecursionError):
            raise StateError(f"{Path(path).name} is no model: it is not a JSON text") from None
        return cls.from_dict(record)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _checksum(record: Mapping[str, Any]) -> str:
    """Return a digest that finds accidents; it keeps nobody from writing another model."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
