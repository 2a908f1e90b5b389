"""Records of many rounds, for evaluation; these objects are not private."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._clipping import Flags
from dpoco._html import as_html
from dpoco._validation import FloatArray, float_array, import_package

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["RecordShares", "Trace"]

NO_STREAM = "this trace has no stream: how its records were read is not known"


@dataclass(frozen=True, repr=False)
class RecordShares:
    """How records were read, as shares of all records. **Not private**: it counts raw records.

    Learners accept records silently, because an exception would reveal something. In an evaluation,
    this object shows where a schema is wrong: a misspelt feature, labels in another code, a bound
    that is too narrow.

    Attributes
    ----------
    records : int
        Number of records.
    shares : dict of str to float
        Share in [0, 1] of the records that were ``empty`` (nothing was learned from them, for any
        reason), ``beyond_participation`` (a person had more than the participation allows),
        ``filled`` (a constant replaced a missing cell), ``clipped`` (shortened to their bound), had
        an entry ``missing`` (not finite) or ``out_of_range`` (moved into its declared range), a
        ``label_missing``, ``label_out_of_range`` (moved into it) or ``unknown_label``, a
        ``reward_missing`` or ``reward_out_of_range`` (of any arm), ``missing_features`` (a listed
        name is absent or None), ``unlisted_features`` (a name in the record is not listed) or
        ``unlisted_category`` (a column's list lacks it). Those that cannot occur are left out.
    columns : dict of str to dict of str to float
        The same shares for single columns, by name or number, as far as they are known.
    """

    records: int
    shares: dict[str, float]
    columns: dict[str, dict[str, float]]

    @classmethod
    def of(cls, *flags: Flags, names: Sequence[str] | None = None) -> RecordShares:
        """Count properties of records, shape (T,), or of their columns, shape (T, d)."""
        merged: dict[str, NDArray[np.bool_]] = {}
        for key, values in (item for each in flags for item in each.items()):
            # A record may be empty for several reasons.
            merged[key] = merged[key] | values if key in merged else values
        shares: dict[str, float] = {}
        columns: dict[str, dict[str, float]] = {}
        for key, values in merged.items():
            if values.ndim == 2:
                found = _share(values).tolist()
                # If the number of names is different, the names belong to other columns.
                known = range(len(found)) if names is None or len(names) != len(found) else names
                for name, share in zip(known, found, strict=True):
                    columns.setdefault(str(name), {})[key] = share
            shares[key] = float(_share(np.any(values, axis=1) if values.ndim == 2 else values))
        return cls(len(next(iter(merged.values()), ())), shares, columns)

    def __repr__(self) -> str:
        return f"<dpoco.RecordShares of {self.records} records: not private, for evaluation only>"


class ReadRecords(ABC):
    """Base of the traces that know how their records were read."""

    # Records that an enforced participation did not admit, shape (T,); None if it admitted all.
    _beyond: NDArray[np.bool_] | None = None

    @abstractmethod
    def _flags(self, part: slice) -> Flags:
        """Return the flags of some records; `ValueError` if the trace has no stream."""

    @property
    def nonprivate_records(self) -> RecordShares:
        """How the learner read the records of the run. **Not private**: do not publish it.

        Raises
        ------
        ValueError
            For a loaded trace, which has no stream.
        """
        # Counted on request, because a trace is mostly read for its losses.
        flags = self._flags(slice(None))
        return RecordShares.of(flags, beyond_flags(self._beyond))


def beyond_flags(beyond: NDArray[np.bool_] | None) -> Flags:
    """Return the flags of records that a participation did not admit, if any; they are empty."""
    # Without such records the flag is left out, because it cannot occur.
    if beyond is None or not beyond.any():
        return {}
    return {"beyond_participation": beyond, "empty": beyond}


def counted_rounds(*data: ArrayLike, experts: bool = False) -> NDArray[np.bool_]:
    """Return the rounds whose data are all finite, shape (T,), over which losses are averaged.

    A round with missing data is empty and has no loss. For contexts and rewards only the rewards
    matter, because a bandit plays an arm even without a context. Functions count as finite. For
    losses of experts, one must be finite: the others count as the smallest.
    """
    parts = [np.asarray(part) for part in data]
    # Labels have one dimension less than features, so two matrices belong to a bandit.
    if [part.ndim for part in parts] == [2, 2]:  # contexts and rewards
        parts = parts[1:]
    counted = np.ones(len(parts[0]), dtype=bool)
    for part in parts:
        if part.dtype.kind == "f":
            finite = np.isfinite(part).reshape(len(part), -1)
            counted &= finite.any(axis=1) if experts else finite.all(axis=1)
    return counted


def average_over(values: FloatArray, counted: NDArray[np.bool_]) -> float:
    """Return the mean of values, shape (T,), over the rounds that count; NaN if there are none."""
    return float(values[counted].mean()) if counted.any() else float("nan")


def _share(flags: NDArray[np.bool_]) -> FloatArray:
    """Return the share of records, per column if there are columns; 0 without records."""
    counts: FloatArray = np.count_nonzero(flags, axis=0) / np.float64(max(1, len(flags)))
    return counts


@dataclass(frozen=True, eq=False)
class Trace(ReadRecords):
    """Losses and decisions of a run. **Not private**: losses are computed from raw records.

    Attributes
    ----------
    losses : ndarray of float64, shape (T,)
        Loss of each round's decision on that round's (clipped) record.
    switches : ndarray of int64
        Round indices (0-based, increasing) after which the decision changed.
    first_round : int
        Number of rounds that the learner had consumed before this run.
    """

    losses: FloatArray
    switches: NDArray[np.int64]
    first_round: int
    _decisions: FloatArray | None = field(repr=False)  # all, or the first one of each stretch
    _loss_of: Callable[[FloatArray], FloatArray] = field(repr=False)
    _flags_of: Callable[[slice], Flags] | None = field(default=None, repr=False)
    _beyond: NDArray[np.bool_] | None = field(default=None, repr=False)

    def _flags(self, part: slice) -> Flags:
        if self._flags_of is None:
            raise ValueError(NO_STREAM)
        return self._flags_of(part)

    def __len__(self) -> int:
        return int(self.losses.shape[0])

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self)

    @property
    def average_loss(self) -> float:
        """Mean loss of all rounds, including empty ones, which lose 0; NaN for an empty run.

        Reports instead average over the rounds that count: ``losses.sum() / counted``.
        """
        return float(self.losses.mean()) if len(self) else float("nan")

    @property
    def counted(self) -> int:
        """Number of rounds that count: all except those with an empty record. **Not private**.

        A record beyond an enforced participation counts, because it is also used to judge a
        decision.

        Raises
        ------
        ValueError
            For a loaded trace, which has no stream.
        """
        flags = self._flags(slice(None))
        # Custom losses have no flag for empty records; records with a missing number are empty.
        missing = flags.get("missing")
        empty = np.any(missing, axis=1) if missing is not None else np.zeros(len(self), dtype=bool)
        return len(self) - int(np.count_nonzero(flags.get("empty", empty)))

    @property
    def decisions(self) -> FloatArray:
        """Released decisions, shape (T, d); row t is the decision of round t.

        Raises
        ------
        ValueError
            If the run was made with ``record_decisions=False``.
        """
        if self._decisions is None:
            raise ValueError("decisions were not recorded: run with record_decisions=True")
        if len(self._decisions) == len(self):
            return self._decisions
        # A decision is stored once, for all rounds until the next switch. A change after the last
        # round does not begin a stretch of this run.
        firsts = np.append(0, 1 + self.switches[self.switches < len(self) - 1])
        # Long runs have few switches, so the table is only made on request.
        table = np.repeat(self._decisions, np.diff(firsts, append=len(self)), axis=0)
        table.setflags(write=False)
        return table

    def comparator_losses(self, decision: ArrayLike) -> FloatArray:
        """Return the losses, shape (T,), of a fixed decision of shape (d,)."""
        return self._loss_of(float_array("decision", decision, (None,)))

    def regret(self, comparator: Any) -> FloatArray:
        """Return cumulative regret against a comparator.

        Parameters
        ----------
        comparator : array_like of shape (d,) or object with a ``decision`` attribute
            A fixed decision, for example the result of ``dpoco.evaluation.best_fixed_decision``.

        Returns
        -------
        ndarray of float64, shape (T,)
            Sum over rounds up to t of the own loss minus the comparator's loss.
        """
        # Results of `evaluation` have their decision under this name.
        decision = getattr(comparator, "decision", comparator)
        return np.cumsum(self.losses - self.comparator_losses(decision))

    def to_frame(self) -> DataFrame:
        """Return a pandas DataFrame with one row per round (needs pandas)."""
        pd = import_package("pandas", "to_frame", "files")

        # There is one row for each round, numbered from 1 on.
        changed = np.zeros(len(self), dtype=bool)
        changed[self.switches] = True
        return pd.DataFrame(
            {
                "round": np.arange(self.first_round + 1, self.first_round + 1 + len(self)),
                "loss": self.losses,
                "changed": changed,
            }
        )

    def _repr_html_(self) -> str:
        facts = (
            f"average loss  {self.average_loss:.6g} over all {len(self):,} rounds\n"
            f"switches      {len(self.switches):,}"
        )
        return as_html(f"{repr(self)[1:-1]}\n{facts}")

    def __repr__(self) -> str:
        return f"<dpoco.Trace of {len(self)} rounds: not private, for evaluation only>"
