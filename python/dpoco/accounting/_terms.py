"""The terms of a guarantee: a plain value that follows from a description and what is stated of it.

A guarantee is about everything that one learner releases over its whole horizon. The pair (epsilon,
delta) is one point of its privacy curve, which is that of its loss (`dpoco.privacy`), truncated
tails of the samplers included. `dpoco.Guarantee` has these terms, and can be printed, stored and
checked.

Proof pages: ``docs/privacy/gaussian.md`` and ``docs/privacy/couplings.md`` (curves),
``docs/privacy/noise.md`` (truncated tails), and the page named in ``reference`` (the mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpoco._validation import LARGEST_HORIZON, Fields, choice, positive_float, positive_int
from dpoco.accounting import conditions as meaning
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import NO_NOISE, PROMISED
from dpoco.errors import BudgetExceeded
from dpoco.privacy.losses.combined import NOTHING, UNKNOWN, Least, least, with_tails
from dpoco.privacy.losses.decaying import Decaying
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, Zcdp, sum_up
from dpoco.privacy.mechanisms.base import Declared, Mechanism, Parts
from dpoco.privacy.mechanisms.participation import most_rounds
from dpoco.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Terms"]

_NUMBERS = ("gdp", "zcdp", "unknown")  # kinds of losses that `mu` and `rho` say all about


@dataclass(frozen=True, repr=False, kw_only=True)
class Terms:
    """The fields of a `dpoco.Guarantee`, and the numbers that follow from them."""

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
        # The caller may still change the dictionary that was given.
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
            raise ValueError("a statement about one person needs a description, and its rounds")

    def _take_from(self, description: Mechanism) -> None:
        """Set what the description and the set-up decide, whatever else was said."""
        units = meaning.units(description, self.view, self.person)
        unit = self.unit or (*units, "one round")[0]
        if units and unit not in units:
            raise ValueError(f"this mechanism protects {units[0]!r}, not {unit!r}")
        first, last = self._own_conditions(description)
        given = dict.fromkeys(self.conditions)
        # A record repeats the derived conditions; they are taken out and put back in their order,
        # so that reading what was written changes nothing.
        further = (text for text in given if text not in first and text not in last)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "numerics", meaning.arithmetic(description))
        object.__setattr__(self, "conditions", (*first, *further, *last))
        # No caller and no record can state this: it is set again here, whatever they said.
        object.__setattr__(self, "certified", self.private and not self.doubts)

    def _own_conditions(self, description: Mechanism) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the conditions that follow, in front of the issuer's own and behind them."""
        person = self.person is not None
        return meaning.conditions(
            description, self.neighbours, person=person, seeded=self.seeded, mass=self.loss.mass
        )

    @classmethod
    def about(
        cls,
        mechanism: Mechanism,
        near: Neighbours,
        *,
        released: str,
        horizon: int | None,
        delta: float,
        reference: str,
        seeded: bool,
        conditions: tuple[str, ...] = (),
        unit: str = "",
        **said: Any,
    ) -> Self:
        """Return the guarantee of everything that `mechanism` releases, stated at `delta`.

        Epsilon, mu, rho, profile and tails come from ``mechanism.loss(near)`` and nothing else.
        What is purely private is stated at delta 0 where `delta` buys no more than the curve of
        that.

        Parameters
        ----------
        mechanism, near
            What is enforced and drawn, and for which neighbours.
        released : str
            What is released, in words.
        horizon : int or None
            Rounds covered; None is an endless stream.
        delta : float
            Where epsilon is stated, in [0, 1).
        reference : str
            Theorem and page of the proof.
        seeded : bool
            Whether the noise is reproducible.
        conditions : tuple of str
            Further ones than those that follow from the description.
        unit : str
            Where the description allows several.
        **said
            Fields of the guarantee that only people read.

        Returns
        -------
        Guarantee
            Without a loss one without privacy, with the regret and the details that were given.

        Raises
        ------
        ValueError
            For a unit that the mechanism does not protect, and numbers out of range.
        """
        rounds = LARGEST_HORIZON if horizon is None else int(horizon)
        loss = mechanism.loss(near)
        if loss is None:
            own = (*meaning.units(mechanism, near.view, None), "one round")[0]
            none = cls.none(rounds, released, unit=unit or own)
            # Regret is bounded with and without privacy.
            forecast = {name: said[name] for name in ("regret_bound", "details") if name in said}
            return replace(none, **forecast)
        bounds = loss.bare.bounds
        others = [one for one in bounds if not isinstance(one, Pure)]
        pure = len(others) < len(bounds) and loss.mass == 0.0
        # A delta that buys no smaller epsilon is given back: pure privacy is the stronger
        # statement.
        if pure and all(one.epsilon(delta) >= loss.pure for one in others):
            delta = 0.0
        return cls(
            **_at(loss, delta),
            change=near.change,
            view=near.view,
            unit=unit,
            horizon=rounds,
            mechanism=released,
            reference=reference,
            conditions=conditions,
            seeded=seeded,
            description=mechanism,
            **said,
        )

    @classmethod
    def none(
        cls, horizon: int, mechanism: str = "a learner without noise", *, unit: str = "one round"
    ) -> Self:
        """Return the guarantee of a mechanism without privacy.

        Parameters
        ----------
        horizon : int
            Rounds covered.
        mechanism : str
            What is released, in words.
        unit : str
            What one change of the data would concern.

        Returns
        -------
        Guarantee
            With an infinite epsilon, delta 1, and the condition that there is no noise.
        """
        released = "the decisions" if unit == "one round" else "what is released"
        return cls(
            epsilon=math.inf,
            delta=1.0,
            change="replace",
            unit=unit,
            horizon=horizon,
            mechanism=mechanism,
            calibration="none",
            conditions=(NO_NOISE.format(released=released),),
        )

    @classmethod
    def gaussian(
        cls, *, sensitivity: float, noise_scale: float, delta: float, horizon: int,
        releases: int = 1, change: str = "replace", unit: str = "one round",
        released: str = "releases of another program", conditions: Sequence[str] = (),
    ) -> Self:  # fmt: skip
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
        >>> own = Guarantee.gaussian(sensitivity=2.0, noise_scale=8.0, delta=1e-6, horizon=1000)
        >>> round(own.epsilon, 4), own.certified
        (1.0607, False)
        """
        return cls._about_program(
            True, positive_float("sensitivity", sensitivity), noise_scale, releases,
            delta=positive_float("delta", delta),
            change=change, horizon=horizon, unit=unit, released=released, conditions=conditions,
        )  # fmt: skip

    @classmethod
    def pure_epsilon(
        cls, epsilon: float, *, horizon: int, releases: int = 1, change: str = "replace",
        unit: str = "one round", released: str = "releases of another program",
        conditions: Sequence[str] = (),
    ) -> Self:  # fmt: skip
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
        return cls._about_program(
            False, positive_float("epsilon", epsilon), 1.0, releases, delta=0.0,
            change=change, horizon=horizon, unit=unit, released=released, conditions=conditions,
        )  # fmt: skip

    @classmethod
    def _about_program(
        cls, gaussian: bool, moved: float, scale: float, releases: int, *, delta: float,
        change: str, horizon: int, conditions: Sequence[str], **said: Any,
    ) -> Self:  # fmt: skip
        """Return the guarantee of a caller's mechanism with Gaussian or purely private releases.

        `moved` over `scale` is what one release tells; rounded up over all of them.
        """
        count, page = positive_int("releases", releases), "gaussian" if gaussian else "pure"
        # Releases with separate noise: moves add up in squares in l2, and as they are in l1.
        if gaussian:
            total = moved * math.sqrt(count)
            # Products and roots are rounded to nearest: the sum may be larger.
            while total < math.inf and Fraction(total) ** 2 < count * Fraction(moved) ** 2:
                total = math.nextafter(total, math.inf)
        else:
            total = sum_up((count, moved, 1.0))
        return cls.about(
            Declared(change, gaussian, total, positive_float("noise_scale", scale)),
            Neighbours(change),
            horizon=positive_int("horizon", horizon),
            delta=delta,
            reference=f"declared by the caller; docs/privacy/{page}.md, "
            "docs/privacy/composition.md",
            seeded=False,
            conditions=tuple(conditions),
            **said,
        )

    @classmethod
    def composed(cls, *parts: Terms, delta: float | None = None) -> Self:
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
        described = tuple(g.description for g in parts if g.description is not None and g.private)
        if not parts or len(described) < len(parts):
            raise ValueError("parts must be private mechanisms, each with its description")
        if len({(g.neighbours, g.unit) for g in parts}) > 1:
            raise ValueError("the parts are about different changes, views, units or people")
        return cls.about(
            Parts("together", described),
            parts[0].neighbours,
            released="; and ".join(dict.fromkeys(g.mechanism for g in parts)),
            horizon=max(g.horizon for g in parts),
            delta=max(g.delta for g in parts) if delta is None else delta,
            reference="composition; docs/privacy/composition.md, Theorem 1; and of the parts: "
            + "; ".join(dict.fromkeys(g.reference for g in parts)),
            seeded=any(g.seeded for g in parts),
            unit=parts[0].unit,
            person=parts[0].person,
            conditions=tuple(dict.fromkeys(text for g in parts for text in g.further)),
        )

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

        Returns
        -------
        float
            An upper bound in [0, 1]; 1 where nothing is known.

        Raises
        ------
        ValueError
            For a negative epsilon, and NaN.
        """
        if not epsilon >= 0.0:
            raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
        # The stated point holds also where the loss knows nothing (ledgers, bare points).
        stated = self.delta if epsilon >= self.epsilon else 1.0
        return min(stated, self.loss.delta(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon known at `delta`; infinite if there is none.

        Parameters
        ----------
        delta : float
            In [0, 1); 0 asks for pure differential privacy.

        Raises
        ------
        ValueError
            For a delta out of range.
        """
        if not 0.0 <= delta < 1.0:
            raise ValueError(f"delta must be in [0, 1); got {delta!r}")
        return min(self.epsilon if delta >= self.delta else math.inf, self.loss.epsilon(delta))

    def require(self, budget: Budget) -> None:
        """Raise `BudgetExceeded` unless the guarantee is at least as strong as `budget`.

        Every learner asks this of the guarantee of its plan, also of one that others wrote.
        """
        if budget.delta == 0.0:  # a delta may underflow to 0 where the ratio is not bounded
            kept = self.epsilon_at(0.0) <= budget.epsilon
        else:
            kept = self.delta_at(budget.epsilon) <= budget.delta
        if not self.private or not kept:
            raise BudgetExceeded(
                f"the parameters give epsilon = {self.epsilon_at(budget.delta):.6g} at delta = "
                f"{budget.delta:.6g}, above the budget's {budget.epsilon:.6g}"
            )

    @property
    def neighbours(self) -> Neighbours:
        """Which streams must look alike, and to whom."""
        return _find_neighbours(self.change, self.view, *(self.person or (1, 1)))

    def for_person(self, rounds: int | None, separation: int = 1, *, once: bool = False) -> Self:
        """Return the guarantee for all rounds of one person together, at the same delta.

        Parameters
        ----------
        rounds : int or None
            Largest number of rounds of one person, at least 1; None: as many as `separation`
            allows.
        separation : int
            Smallest distance between a person's rounds, at least 1; 1 allows neighbouring rounds.
            Rounds are counted in order of arrival, not by releases.
        once : bool, default False
            State it also for a person with one round: with a limiter all that such a person brings
            is protected, and not only the round that counted.

        Returns
        -------
        Guarantee
            Without the claims of papers, which are about single rounds; itself for one round,
            unless `once`. A pure guarantee stays pure where a person's rounds have a pure epsilon.

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
        apart = positive_int("separation", separation)
        asked = 2**62 if rounds is None else positive_int("rounds", rounds)
        counted = meaning.records_in_interval(self.description) is not None
        stream = counted or self.unit in ("one round", "one user's record")  # rounds count
        if rounds is None and (apart == 1 or not stream):
            raise ValueError("rounds may be None for a stream and a separation above 1 only")
        if not (stream or self.person):
            apart = 1  # where records lie in a data set is data
        most = most_rounds(asked, apart, self.horizon) if stream or self.person else asked
        if not self.private or (most == 1 and not once):
            return self
        if self.person is not None:
            # A pattern that keeps to the stricter rule also keeps to the one that was proved.
            if most > self.person[0] or apart < self.person[1]:
                raise ValueError("the guarantee is for people who come less often")
            return self
        if self.description is None or not (stream or self.unit in ("one record", "one report")):
            raise ValueError(
                "the guarantee is not about one mechanism and single records: call this for its "
                "parts"
            )
        loss = self.description.loss(Neighbours(self.change, self.view, most, apart))
        assert loss is not None  # it is private
        pure = self.delta == 0.0 and loss.pure < math.inf
        # A pure guarantee of single rounds may have no pure one for people; then it needs a delta.
        delta = 0.0 if pure else self.delta or 1.0 / (10.0 * self.horizon)
        return replace(
            self,
            **_at(loss, delta),
            unit="one person",
            # Published numbers are about single rounds.
            claimed=None,
            paper_epsilon=None,
            conditions=self.further,
            person=(most, apart),
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """The assumptions of the protection that are neither enforced nor proved, one clause each.

        Of a guarantee without a description they are unknown.
        """
        found: tuple[str, ...] = ()
        if self.seeded:
            found = ("the noise is drawn afresh and stays secret",)
        if self.description is None:
            return found
        # Where nothing depends on the data, no promise is needed.
        if self.loss.bare != NOTHING:
            promised = (text for text in self.further if text.startswith(PROMISED))
            own = (text.removeprefix(PROMISED).rstrip(".") for text in promised)
            found = (*found, *meaning.promises(self.description), *own)
        # A printed claim of these learners is never taken over, even where it happens to follow
        # (docs/privacy/oco_regret.md, "Published parameters").
        printed = self.calibration == "paper" and self.description.kind == "coupled_draws"
        if self.claimed is not None and (printed or not self._claim_follows()):
            epsilon, delta = self.claimed
            said = f"epsilon = {epsilon:.6g}, delta = {delta:.6g}"
            found += (f"nobody relies on what a paper claims instead ({said}, not proved here)",)
        return found

    def _claim_follows(self) -> bool:
        """Return whether the curve proves what is claimed."""
        assert self.claimed is not None
        epsilon, delta = self.claimed
        # The slack is that of `check_claim`.
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
        """Numbers of the noise that follow from the description; none without one."""
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
        """Largest column norm of the continual sum; of a person, that of all rounds together."""
        return self._numbers.column_norm  # type: ignore[no-any-return]

    @property
    def noise_multiplier(self) -> float | None:
        """1/mu: the scale in units of everything that one change moves."""
        return None if self.mu is None else 1.0 / self.mu

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
        """Return a number of the stated loss of this kind; None if there is none."""
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
    def profile(self) -> Fields | None:
        """Numbers of a loss that says more than `mu` and `rho`; "kind" names it.

        "pure": `epsilon`. "gaussian" and "renyi": draws composed with bits, see
        ``docs/privacy/couplings.md``. Others: see the page named in `reference`.
        """
        return None if self.beyond is None else self.beyond.to_dict()

    @property
    def truncation_mass(self) -> float:
        """Total variation between real and ideal noise over the horizon; charged to delta."""
        return self.loss.mass


# Pools, and learners that go on from a state, certify the same plan again and again.
# The caches are `typed`: True and 1.0 equal 1 but are no counts, 0 equals 0.0 and the fields repeat
# delta as it was given.
@lru_cache(maxsize=256, typed=True)
def _find_neighbours(change: str, view: str, rounds: int, separation: int) -> Neighbours:
    return Neighbours(change, view, rounds, separation)


@lru_cache(maxsize=256, typed=True)
def _at(loss: Loss, delta: float) -> Fields:
    """Return the fields of a guarantee that a loss decides, stated at `delta`, to read only."""
    epsilon = loss.epsilon(delta)
    own = _choose_bounds(loss.bare, epsilon, delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "loss": with_tails(least(*own), loss.mass),
    }


def _choose_bounds(ideal: Loss, epsilon: float, delta: float) -> tuple[Loss, ...]:
    """Return the bounds that a guarantee at this point states of an ideal loss.

    These are the curve with the least delta there and at most one number: mu if it proves as much
    as the loss, or rho of selections that shrink and of the least of several losses.
    """
    curves = [one for one in ideal.bounds if not isinstance(one, (Gaussian, Zcdp))]
    at = epsilon if math.isfinite(epsilon) else 0.0
    rest = tuple(sorted(curves, key=lambda one: one.delta(at))[:1])
    if 0.0 < ideal.mu < math.inf and math.isfinite(epsilon):
        bell = Gaussian(ideal.mu)
        if not rest or bell.delta(epsilon) <= ideal.delta(epsilon) * (1.0 + 1e-9):
            return (bell, *rest)
    said = isinstance(ideal, Decaying) or (isinstance(ideal, Least) and delta > 0.0)
    if said and 0.0 < ideal.rho < math.inf:
        return (Zcdp(ideal.rho), *rest)
    return rest or ideal.bounds
