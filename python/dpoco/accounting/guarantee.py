"""The guarantee of a learner, as a value that can be printed, stored and checked.

The terms and the numbers that follow from them are those of `dpoco.accounting._terms`. The
functions that print, store and check terms become methods here, and only here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dpoco._html import as_html
from dpoco._json import of_json
from dpoco._validation import Fields, Named
from dpoco.accounting import _certificate, events, explanation
from dpoco.accounting._terms import Terms

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Guarantee"]


class Guarantee(Terms):
    """A differential privacy guarantee.

    Attributes
    ----------
    epsilon, delta : float
        The stated point of the curve: the smallest epsilon known at this delta. An infinite epsilon
        means no privacy.
    change : {"replace", "zero_out"}
        How neighbouring streams differ in one unit: its data are replaced by any others, or are
        empty in one of the streams.
    unit : str
        Unit of the data that one change affects: "one round" of a stream, "one record" of a data
        set, "one user's record", "one person", "one report", ... It follows from the description,
        if there is one, except for a caller's own mechanism.
    horizon : int
        Number of rounds covered, at least 1; for records, releases.
    mechanism : str
        Description of the releases, in words.
    calibration : str
        "tight", "corrected", "paper" or "none".
    seeded : bool
        Whether the noise is reproducible. Then nothing is protected.
    certified : bool
        Whether the statement is proved for the mechanism as configured, and all its assumptions are
        enforced. It follows from the description, if there is one. False for reproducible noise,
        without privacy, for promises, and if a paper's claim is stated next to the proved
        statement.
    claimed : (float, float) or None
        The (epsilon, delta) claimed by the calibration's own composition argument; weaker than
        (epsilon, delta).
    paper_epsilon : float or None
        Epsilon that the published constants give for the same noise at the same delta.
    reference : str
        Theorem, whether corrected, and the page of the proof.
    conditions : tuple of str
        Conditions under which the guarantee holds: those that follow from the description and the
        set-up, which cannot be left out (`derived`), and others (`further`).
    regret_bound : float or None
        Bound on the expected regret over the horizon, in units of the loss, for data that do not
        depend on the decisions.
    numerics : {"lattice", "float"} or None
        Arithmetic of the releases. "lattice": exact integers with noise of exactly the right
        distribution, which is accounted for. "float": doubles, whose rounding is not accounted for.
        None: see the conditions (nothing to state, or a record of an earlier release). It follows
        from the description, if there is one.
    view : {"everyone", "others", "server"}
        Who cannot tell neighbouring streams apart: everyone who sees the releases; all others
        together, who do not see what the protected user is shown (joint privacy); or also the party
        that collects the reports (local privacy).
    details : dict
        Parameters behind the numbers, as printed by the report: name to number, text or None.
    description : Mechanism or None
        The mechanism that is enforced and drawn, which decides loss and epsilon. None for
        guarantees of other origin (pools, sums of a ledger, records of earlier versions).
    loss : Loss
        Privacy loss of all releases together, truncated tails included.
    person : (int, int) or None
        Largest number of rounds of one person, and smallest distance between two of them; None for
        one unit. See `for_person`.
    """

    # These functions only know `Terms`, so that their modules need not import this one.
    __repr__ = explanation.one_line
    __str__ = explanation.statement

    def verify(self) -> None:
        """Raise `StateError` unless a new computation confirms the stated epsilon and delta.

        The computation uses the description of the mechanism, if there is one. Otherwise it uses
        the guarantee's own curve, which proves nothing about a mechanism. It tolerates a relative
        1e-12, because the last digits differ between machines. Whether anything is protected is
        another question: see `dpoco.accounting.explanation.verdict`.

        Raises
        ------
        StateError
            If the stated epsilon is smaller than the computed one at its delta.
        """
        _certificate.verify(self)

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        return _certificate.to_record(self)

    @property
    def event(self) -> events.Event:
        """The ``dp_accounting`` event; read it under ``NeighboringRelation.REPLACE_SPECIAL``.

        It describes the ideal noise; `truncation_mass` must be added. Raises ``ValueError`` if the
        package has no event for the guarantee, for example one with random bits.
        """
        return events.make_event(self)

    @classmethod
    def from_dict(cls, record: Named) -> Self:
        """Return the guarantee written by `to_dict`.

        Raises
        ------
        StateError
            If it is not a guarantee, or if its numbers contradict each other or its description.
        """
        return _certificate.read(record, cls)

    def to_json(self) -> str:
        """Return the guarantee as JSON text; every float is preserved exactly."""
        # Infinite numbers are already texts. One that is left would be invalid JSON.
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the guarantee written by `to_json`; `StateError` for anything else."""
        return cls.from_dict(of_json(text))

    def _repr_html_(self) -> str:
        """Return the statement for notebooks."""
        return as_html(str(self))
