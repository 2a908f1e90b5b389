"""What a learner promises, as a value that can be printed, stored and checked.

A guarantee speaks about everything one learner releases over its whole horizon. The pair
(epsilon, delta) is one point of its privacy curve, which is that of its loss (`dpoco.privacy`),
truncated tails of the samplers included. Stored guarantees are read by
``dpoco.accounting._certificate``.

Proof pages: ``docs/privacy/gaussian.md`` and ``docs/privacy/couplings.md`` (curves),
``docs/privacy/noise.md`` (truncated tails), and the page named in ``reference`` (the mechanism).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpoco._validation import choice, positive_float
from dpoco.accounting._words import PROMISED
from dpoco.accounting.budget import Budget
from dpoco.errors import BudgetExceeded
from dpoco.privacy.losses.combined import NOTHING, UNKNOWN
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.neighbours import Neighbours

__all__ = ["Guarantee"]

_NUMBERS = ("gdp", "zcdp", "unknown")  # kinds of losses that `mu` and `rho` say all about


@dataclass(frozen=True, repr=False, kw_only=True)
class Guarantee:
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
        What one change of the data concerns: "one round" of a stream, "one record" of a data set,
        "one user's record", "one person", "one report", ...: it follows from the description, if
        there is one, except of a caller's own mechanism.
    horizon : int
        Number of rounds covered, at least 1; for records, releases.
    mechanism : str
        What is released, in words.
    calibration : str
        "tight", "corrected", "paper" or "none".
    seeded : bool
        Whether the noise is reproducible: then nothing is protected.
    certified : bool
        Whether the statement is proved for the mechanism as configured, and everything that it
        rests on is enforced. It follows from the description, if there is one. False for
        reproducible noise, without privacy, for promises, and where a paper's claim is stated
        beside what is proved.
    claimed : (float, float) or None
        The (epsilon, delta) that the calibration's own composition argument claims; weaker than
        (epsilon, delta).
    paper_epsilon : float or None
        Epsilon that the published constants give for the same noise at the same delta.
    reference : str
        Theorem, whether corrected, and the page of the proof.
    conditions : tuple of str
        Conditions under which the guarantee holds: those that follow from the description and the
        set-up, which nobody can leave out (`derived`), and others (`further`).
    regret_bound : float or None
        Bound on the expected regret over the horizon, in units of the loss, for data that do not
        depend on the decisions.
    numerics : {"lattice", "float"} or None
        Arithmetic of what is released. "lattice": exact integers with noise of exactly the right
        distribution, which is accounted for. "float": doubles, whose rounding is not accounted for.
        None: see the conditions (nothing to state, or a record of an earlier release). It follows
        from the description, if there is one.
    view : {"everyone", "others", "server"}
        Who cannot tell neighbouring streams apart: everyone who sees the releases; all others
        together, who do not see what the protected user herself is shown (joint privacy); or also
        the party that collects the reports (local privacy).
    details : dict
        Parameters behind the numbers, as printed by the report: name to number, text or None.
    description : Mechanism or None
        What was enforced and drawn; loss and epsilon follow from it. None for guarantees of other
        origin (pools, sums of a ledger, records of earlier versions).
    loss : Loss
        Privacy loss of all releases together, truncated tails included.
    person : (int, int) or None
        Largest number of rounds of one person, and smallest distance between two of them; None for
        one unit. See `for_person`.
    """

    epsilon: float
    delta: float
    change: str
    unit: str = ""
    horizon: int
    mechanism: str
    calibration: str = "tight"
    seeded: bool = False
    certified: bool = False
    claimed: tuple[float, float] | None = None
    paper_epsilon: float | None = None
    reference: str = ""
    conditions: tuple[str, ...] = ()
    regret_bound: float | None = None
    details: dict[str, float | str | None] = field(default_factory=dict, hash=False)
    numerics: str | None = None
    view: str = "everyone"
    description: Mechanism | None = None
    loss: Loss = UNKNOWN
    person: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Validate ranges, freeze sequences, and take from the description what follows."""
        for name in ("person", "conditions", "claimed"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        object.__setattr__(self, "details", dict(self.details))
        if self.person is not None and len(self.person) != 2:
            raise ValueError("person must be rounds and separation")
        _ = self.neighbours  # raises for what is none
        if self.numerics is not None:
            choice("numerics", self.numerics, ("lattice", "float"))
        if not self.epsilon >= 0.0:
            raise ValueError(f"epsilon must be at least 0; got {self.epsilon!r}")
        if not 0.0 <= self.delta <= 1.0:
            raise ValueError(f"delta must be in [0, 1]; got {self.delta!r}")
        if type(self.horizon) is not int or not 1 <= self.horizon <= 2**62:
            raise ValueError(f"horizon must be an int in [1, 2^62]; got {self.horizon!r}")
        if self.regret_bound is not None and not self.regret_bound < math.inf:
            object.__setattr__(self, "regret_bound", None)  # nothing is bounded
        if self.description is not None:
            self._take_from(self.description)
        # Only a description says what several rounds cost.
        if (self.description is not None and self.unit == "one person") != bool(self.person):
            raise ValueError("what is said of one person needs a description, and its rounds")

    def _take_from(self, description: Mechanism) -> None:
        """Set what the description and the set-up decide, whatever else was said."""
        from dpoco.accounting import _meaning as meaning

        units = meaning.units(description, self.view, self.person)
        unit = self.unit or (*units, "one round")[0]
        if units and unit not in units:
            raise ValueError(f"this mechanism protects {units[0]!r}, not {unit!r}")
        first, last = self._own_conditions(description)
        given = dict.fromkeys(self.conditions)
        further = (text for text in given if text not in first and text not in last)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "numerics", meaning.arithmetic(description))
        object.__setattr__(self, "conditions", (*first, *further, *last))
        object.__setattr__(self, "certified", self.private and not self.doubts)

    def _own_conditions(self, description: Mechanism) -> tuple[tuple[str, ...], tuple[str, ...]]:
        from dpoco.accounting import _meaning as meaning

        person = self.person is not None
        return meaning.conditions(
            description, self.neighbours, person=person, seeded=self.seeded, mass=self.loss.mass
        )

    @classmethod
    def none(
        cls, horizon: int, mechanism: str = "a learner without noise", *, unit: str = "one round"
    ) -> Guarantee:
        """Return the guarantee of a mechanism without privacy."""
        released = "the decisions" if unit == "one round" else "what is released"
        return cls(
            epsilon=math.inf,
            delta=1.0,
            change="replace",
            unit=unit,
            horizon=horizon,
            mechanism=mechanism,
            calibration="none",
            conditions=(f"The program adds no noise: {released} may reveal the data.",),
        )

    @classmethod
    def gaussian(
        cls, *, sensitivity: float, noise_scale: float, delta: float, horizon: int,
        releases: int = 1, change: str = "replace", unit: str = "one round",
        released: str = "releases of another program", conditions: Sequence[str] = (),
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee of your own mechanism that adds Gaussian noise.

        Parameters
        ----------
        sensitivity : float
            Largest distance, in l2, by which one record moves any release; positive. The caller
            enforces it.
        noise_scale : float
            Standard deviation of each coordinate's noise, in the same units, positive.
        delta : float
            Delta at which epsilon is stated, in (0, 1).
        horizon : int
            Number of rounds covered.
        releases : int, default 1
            Number of releases that one record can move, each with its own noise.
        change : {"replace", "zero_out"}
            The change of a record that `sensitivity` refers to.
        unit : str
            Unit of the data that a record is.
        released : str
            What is released, in words.
        conditions : sequence of str
            Further conditions of the guarantee.

        Returns
        -------
        Guarantee
            Exact, (sqrt(releases) sensitivity / noise_scale)-GDP. It has a description, so
            `for_person`, ledgers and ``dpoco verify`` accept it. It is not ``certified``: the
            caller promises that the program keeps these bounds, and `conditions` say so.

        Raises
        ------
        ValueError, TypeError
            For numbers out of range.

        Notes
        -----
        Proof: ``docs/privacy/gaussian.md`` and ``docs/privacy/composition.md``.

        Examples
        --------
        >>> from dpoco import Guarantee
        >>> Guarantee.gaussian(sensitivity=2.0, noise_scale=8.0, delta=1e-6, horizon=1000)
        <Guarantee: epsilon=1.0607, delta=1e-06, replace one round, 1000 rounds, not certified>
        """
        from dpoco.accounting.statement import declared

        return declared(
            sensitivity, noise_scale, horizon, releases, positive_float("delta", delta),
            change=change, unit=unit, released=released, conditions=tuple(conditions),
        )  # fmt: skip

    @classmethod
    def pure_epsilon(
        cls, epsilon: float, *, horizon: int, releases: int = 1, change: str = "replace",
        unit: str = "one round", released: str = "releases of another program",
        conditions: Sequence[str] = (),
    ) -> Guarantee:  # fmt: skip
        """Return the guarantee of your own mechanism with delta = 0.

        Parameters
        ----------
        epsilon : float
            Epsilon of any single release, positive. For Laplace noise: the l1 sensitivity over its
            scale.
        horizon, releases, change, unit, released, conditions
            As for `gaussian`; epsilons of releases add up.

        Returns
        -------
        Guarantee
            As for `gaussian`. Proof: ``docs/privacy/pure.md``.

        Raises
        ------
        ValueError, TypeError
            For numbers out of range.

        Examples
        --------
        >>> from dpoco import Guarantee
        >>> Guarantee.pure_epsilon(0.5, horizon=10, releases=2).epsilon
        1.0
        """
        from dpoco.accounting.statement import declared

        return declared(
            epsilon, 1.0, horizon, releases, 0.0,
            change=change, unit=unit, released=released, conditions=tuple(conditions),
        )  # fmt: skip

    @classmethod
    def composed(cls, *parts: Guarantee, delta: float | None = None) -> Guarantee:
        """Return the guarantee for all that several mechanisms release about the same records.

        Parameters
        ----------
        *parts : Guarantee
            Guarantees of mechanisms that were fixed in advance, each with a description, about the
            same change, view and unit. If you choose mechanisms as you go, charge a `Ledger`.
        delta : float, optional
            Delta at which epsilon is stated. Default: the largest delta of the parts.

        Returns
        -------
        Guarantee
            Certified if all parts are. Proof: ``docs/privacy/composition.md``, Theorem 1.

        Raises
        ------
        ValueError
            For no parts, parts without a description, and parts about different things.

        Examples
        --------
        >>> from dpoco import Guarantee
        >>> noisy = Guarantee.gaussian(sensitivity=1.0, noise_scale=4.0, delta=1e-6, horizon=100)
        >>> both = Guarantee.composed(noisy, Guarantee.pure_epsilon(0.1, horizon=100))
        >>> print(f"{both.epsilon:.4f}")
        1.1607
        """
        from dpoco.accounting.statement import composed

        return composed(parts, delta)

    @property
    def private(self) -> bool:
        """Whether there is any privacy guarantee."""
        return math.isfinite(self.epsilon)

    def delta_at(self, epsilon: float) -> float:
        """Return delta(epsilon) of the privacy curve, truncated tails included.

        Parameters
        ----------
        epsilon : float
            At least 0.
        """
        if not epsilon >= 0.0:
            raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
        stated = self.delta if epsilon >= self.epsilon else 1.0
        return min(stated, self.loss.delta(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon known at `delta`; infinite if there is none.

        Parameters
        ----------
        delta : float
            In [0, 1); 0 asks for pure differential privacy.
        """
        if not 0.0 <= delta < 1.0:
            raise ValueError(f"delta must be in [0, 1); got {delta!r}")
        return min(self.epsilon if delta >= self.delta else math.inf, self.loss.epsilon(delta))

    def require(self, budget: Budget) -> None:
        """Raise `BudgetExceeded` unless the guarantee is at least as strong as `budget`."""
        if budget.delta == 0.0:  # a delta may underflow to 0 where the ratio is not bounded
            kept = self.epsilon_at(0.0) <= budget.epsilon
        else:
            kept = self.delta_at(budget.epsilon) <= budget.delta
        if not self.private or not kept:
            raise BudgetExceeded(
                f"the parameters give epsilon = {self.epsilon_at(budget.delta):.6g} at delta = "
                f"{budget.delta:.6g}, above the budget's {budget.epsilon:.6g}"
            )

    def verify(self) -> None:
        """Raise `StateError` unless the stated point follows from a new computation.

        The computation uses the description of what was enforced and drawn, if there is one, or
        otherwise the guarantee's own curve, which proves nothing about a mechanism. It allows for
        different last digits on other machines: 1e-12. Whether anything is protected is another
        question: `dpoco.accounting.verdict.verdict`.
        """
        from dpoco.accounting._certificate import verify

        verify(self)

    @property
    def neighbours(self) -> Neighbours:
        """Which streams must look alike, and to whom."""
        return Neighbours(self.change, self.view, *(self.person or (1, 1)))

    def for_person(self, rounds: int | None, separation: int = 1) -> Guarantee:
        """Return the guarantee for all rounds of one person together, at the same delta.

        Parameters
        ----------
        rounds : int or None
            Largest number of rounds of one person, at least 1; None: as many as `separation`
            allows.
        separation : int
            Smallest distance between two of her rounds, at least 1; 1 allows neighbouring rounds.
            Rounds are counted in order of arrival, not by releases.

        Raises
        ------
        ValueError, TypeError
            For bad arguments, if nothing is proved about several rounds of a person, and for a
            guarantee for people who come less often.

        Notes
        -----
        Running sums, sums that are released once, selections of vertices, arms with either,
        decisions that are kept or drawn afresh, and steps on sampled records are charged the cost
        of the worst such pattern (``docs/privacy/participation.md``). All other mechanisms are
        charged for a group of `rounds` (``docs/privacy/composition.md``).
        """
        from dpoco.accounting.statement import for_person

        return for_person(self, rounds, separation)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the protection rests on and nobody enforces or proves, one clause each.

        Of a guarantee without a description nobody knows.
        """
        from dpoco.accounting import _meaning as meaning

        found: tuple[str, ...] = ()
        if self.seeded:
            found = ("the noise is drawn afresh and stays secret",)
        if self.description is None:
            return found
        if self.loss.bare != NOTHING:
            promised = (text for text in self.further if text.startswith(PROMISED))
            own = (text.removeprefix(PROMISED).rstrip(".") for text in promised)
            found = (*found, *meaning.promises(self.description), *own)
        printed = self.calibration == "paper" and self.description.kind == "coupled_draws"
        if self.claimed is not None and (printed or not self._claim_follows()):
            epsilon, delta = self.claimed
            said = f"epsilon = {epsilon:.6g}, delta = {delta:.6g}"
            found += (f"nobody relies on what a paper claims instead ({said}, not proved here)",)
        return found

    def _claim_follows(self) -> bool:
        assert self.claimed is not None
        epsilon, delta = self.claimed
        return epsilon >= 0.0 and self.delta_at(epsilon) <= delta * (1.0 + 1e-9)

    @property
    def further(self) -> tuple[str, ...]:
        """The `conditions` that do not follow from the description: the issuer's own."""
        if self.description is None:
            return self.conditions
        first, last = self._own_conditions(self.description)
        return self.conditions[len(first) : len(self.conditions) - len(last)]

    @property
    def derived(self) -> tuple[str, ...]:
        """The `conditions` that follow from the description; none without one."""
        own = self.further
        return tuple(text for text in self.conditions if text not in own)

    @property
    def _numbers(self) -> Any:
        from dpoco.accounting import _meaning as meaning

        if self.description is None:
            return meaning.Numbers()
        return meaning.numbers(self.description, self.neighbours)

    @property
    def sensitivity(self) -> float | None:
        """Norm of the largest difference between neighbouring streams in what is summed."""
        return self._numbers.sensitivity  # type: ignore[no-any-return]

    @property
    def sensitivity_norm(self) -> str:
        """Norm of `sensitivity`: "l2", "l3", "linf"; "" if there is none."""
        return self._numbers.sensitivity_norm  # type: ignore[no-any-return]

    @property
    def noise_scale(self) -> float:
        """Scale of one noise draw, in units of what is summed; 0 if there is none.

        Of the first draw if draws become smaller (``blt_normalised``).
        """
        return self._numbers.noise_scale  # type: ignore[no-any-return]

    @property
    def column_norm(self) -> float | None:
        """Largest column norm of the continual sum; of a person, of her rounds together."""
        return self._numbers.column_norm  # type: ignore[no-any-return]

    @property
    def noise_multiplier(self) -> float | None:
        """1/mu: the scale in units of everything that one change moves."""
        return None if self.mu is None else 1.0 / self.mu

    @property
    def curve(self) -> Callable[[float], float]:
        """The privacy curve, epsilon -> delta: the method `delta_at`."""
        return self.delta_at

    # -- what the loss is made of ------------------------------------------------------------------

    @property
    def stated(self) -> tuple[Loss, ...]:
        """The stated loss of the ideal noise, without truncated tails."""
        return self.loss.bare.bounds

    @property
    def beyond(self) -> Loss | None:
        """Loss that says more than `mu` and `rho`; None if these are all."""
        return next((each for each in self.stated if each.kind not in _NUMBERS), None)

    def _number(self, kind: str, name: str) -> float | None:
        return next((getattr(each, name) for each in self.stated if each.kind == kind), None)

    @property
    def mu(self) -> float | None:
        """Parameter of Gaussian differential privacy, if it says as much as the curve."""
        return self._number("gdp", "mu")

    @property
    def rho(self) -> float | None:
        """Parameter of zCDP, if it is stated: mu^2 / 2, or a separate one."""
        own = self._number("zcdp", "rho")
        return self._number("gdp", "rho") if own is None else own

    @property
    def profile(self) -> dict[str, Any] | None:
        """Numbers of a loss that says more than `mu` and `rho`; "kind" names it.

        "pure": `epsilon`. "gaussian" and "renyi": draws composed with bits, see
        ``docs/privacy/couplings.md``. Others: see the page named in `reference`.
        """
        return None if self.beyond is None else self.beyond.to_dict()

    @property
    def truncation_mass(self) -> float:
        """Total variation between real and ideal noise over the horizon; charged to delta."""
        return self.loss.mass

    @property
    def event(self) -> Any:
        """The ``dp_accounting`` event; read it under ``NeighboringRelation.REPLACE_SPECIAL``.

        It describes the ideal noise; `truncation_mass` must be added. Raises ``ValueError`` if the
        package has no event for the guarantee, for example one with random bits.
        """
        from dpoco.accounting import events

        return events.event_of(self)

    # -- stored and printed ------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        from dpoco.accounting._certificate import written

        return written(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Guarantee:
        """Return the guarantee written by `to_dict`.

        Raises
        ------
        StateError
            If it is not a guarantee, or if its numbers contradict each other or its description.
        """
        from dpoco.accounting._certificate import read

        return read(record)

    def to_json(self) -> str:
        """Return the guarantee as JSON text; every float is preserved exactly."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """Return the guarantee written by `to_json`; `StateError` for anything else."""
        from dpoco.accounting._records import of_json

        return cls.from_dict(of_json(text))

    def __repr__(self) -> str:
        """Return one line."""
        from dpoco.accounting.explanation import one_line

        return one_line(self)

    def _repr_html_(self) -> str:
        from dpoco.accounting.explanation import as_html

        return as_html(str(self))

    def __str__(self) -> str:
        """Return a statement that says what is protected, under which conditions, and the proof."""
        from dpoco.accounting.explanation import statement

        return statement(self)
