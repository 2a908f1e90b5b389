"""The value every loader returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, float_array, positive_int
from dpoco.datasets._scaling import PublicScaling
from dpoco.trace import Flags

__all__ = ["Stream"]

FloatArray = NDArray[np.float64]
TASKS = ("classification", "regression")


@dataclass(frozen=True, eq=False)
class Stream:
    """Records in order of arrival, with one label each.

    Attributes
    ----------
    name : str
        Short name, for reports.
    features : ndarray of float64, shape (T, d), read-only
        One record a round; a row with a non-finite entry is a missing record.
    labels : ndarray of float64, shape (T,), read-only
        One label a round; for classification, in [0, 1].
    feature_names : tuple of str
        Names of the d columns.
    task : {"classification", "regression"}
        What the labels are, which suggests the loss.
    description : str
        What the stream is.
    source : str
        Where it comes from, with a reference.
    licence : str
        Terms under which the records may be used; empty if unknown.
    scaling : str
        The public transformation the features went through.
    target : ndarray of shape (d,), optional
        The true parameter, for simulated streams.
    nonprivate_flags : mapping of str to ndarray of bool
        What scaling did: ``out_of_range``, shape (T, d), and ``label_out_of_range``, shape (T,).
        As raw as the records: for reports of evaluations.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, or there are no rounds or no columns.
    """

    name: str
    features: FloatArray
    labels: FloatArray
    feature_names: tuple[str, ...]
    task: str
    description: str = ""
    source: str = ""
    licence: str = ""
    scaling: str = "none"
    target: FloatArray | None = None
    nonprivate_flags: Flags = field(default_factory=dict)

    def __post_init__(self) -> None:
        features = _frozen(float_array("features", self.features, (None, None)))
        rounds, dimension = features.shape
        if rounds == 0 or dimension == 0:
            raise ValueError(f"a stream needs rounds and columns; got shape {features.shape}")
        labels = _frozen(float_array("labels", self.labels, (rounds,)))
        names = tuple(str(name) for name in self.feature_names)
        if len(names) != dimension:
            raise ValueError(f"feature_names must have {dimension} entries; got {len(names)}")
        choice("task", self.task, TASKS)
        target = self.target
        if target is not None:
            target = _frozen(float_array("target", target, (dimension,)))
        fields = {
            "features": features,
            "labels": labels,
            "feature_names": names,
            "target": target,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    def take(self, rounds: int) -> Stream:
        """Return the first `rounds` rounds, or the whole stream if it is shorter."""
        count = positive_int("rounds", rounds)
        if count >= len(self):
            return self
        return replace(
            self,
            features=self.features[:count],
            labels=self.labels[:count],
            nonprivate_flags={k: flags[:count] for k, flags in self.nonprivate_flags.items()},
        )

    def scaled(self, scaling: PublicScaling) -> Stream:
        """Return the stream with features that went through a public scaling."""
        outside = scaling.outside(self.features)
        return replace(
            self,
            features=scaling.apply(self.features),
            feature_names=self.feature_names + (("constant",) if scaling.intercept else ()),
            scaling=scaling.describe(),
            nonprivate_flags={**self.nonprivate_flags, "out_of_range": outside},
        )

    def summary(self) -> dict[str, Any]:
        """Public facts about the stream, JSON-able: no record, no label."""
        return {
            "name": self.name,
            "rounds": self.rounds,
            "dimension": self.dimension,
            "feature_names": list(self.feature_names),
            "task": self.task,
            "description": self.description,
            "source": self.source,
            "licence": self.licence,
            "scaling": self.scaling,
        }

    def __repr__(self) -> str:
        return (
            f"<dpoco Stream {self.name!r}: {self.rounds} rounds x {self.dimension} features, "
            f"{self.task}>"
        )


def _frozen(array: FloatArray) -> FloatArray:
    if array.flags.writeable:  # the caller's own array stays as it is
        array = array.copy()
        array.flags.writeable = False
    return array
