"""The terms of a guarantee: a plain value computed from a description and a few statements.

A guarantee covers everything that one learner releases over its whole horizon. The pair (epsilon,
delta) is one point of the privacy curve of its loss (`dpoco.privacy`), with truncated tails of the
samplers included. `dpoco.Guarantee` has these terms and can be printed, stored and checked.

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

from dpoco._validation import LARGEST_HORIZON, Fields, choice, positive_float, positive_int, real_in
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

_NUMBERS = ("gdp", "zcdp", "unknown")  # kinds of losses that `mu` and `rho` describe completely


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
        """Validate ranges, freeze sequences, and set the fields that the description decides."""
        for name in ("person", "conditions", "claimed"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        # Copied, because the caller may change the given dictionary later.
        object.__setattr__(self, "details", dict(self.details))
        if self.person is not None and len(self.person) != 2:
            raise ValueError("person must be rounds and separation")
        _ = self.neighbours  # raises for an unknown neighbouring relation
        if self.numerics is not None:
            choice("numerics", self.numerics, ("lattice", "float"))
        if not self.epsilon >= 0.0:
            raise ValueError(f"epsilon must be at least 0; got {self.epsilon!r}")
        if not 0.0 <= self.delta <= 1.0:
            raise ValueError(f"delta must be in [0, 1]; got {self.delta!r}")
        if type(self.horizon) is not int or not 1 <= self.horizon <= 2**62:
            raise ValueError(f"horizon must be an int in [1, 2^62]; got {self.horizon!r}")
        if self.regret_bound is not None and not self.regret_bound < math.inf:
            object.__setattr__(self, "regret_bound", None)  # an infinite bound is no bound
        if self.description is not None:
            self._take_from(self.description)
        # Only a description says what several rounds of a person cost.
        if (self.description is not None and self.unit == "one person") != bool(self.person):
            raise ValueError("a statement about one person needs a description, and its rounds")

    def _take_from(self, description: Mechanism) -> None:
        """Set the fields that the description and the set-up decide, overriding given values."""
        units = meaning.units(description, self.view, self.person)
        unit = self.unit or (*units, "one round")[0]
        if units and unit not in units:
            raise ValueError(f"this mechanism protects {units[0]!r}, not {unit!r}")
        first, last = self._own_conditions(description)
        given = dict.fromkeys(self.conditions)
        # A record repeats the derived conditions. We remove them and insert them again in their
        # order, so that a guarantee that was written and read is unchanged.
        further = (text for text in given if text not in first and text not in last)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "numerics", meaning.arithmetic(description))
        object.__setattr__(self, "conditions", (*first, *further, *last))
        # Neither a caller nor a record can state this field; it is always computed here.
        object.__setattr__(self, "certified", self.private and not self.doubts)

    def _own_conditions(self, description: Mechanism) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the derived conditions to print before and after the issuer's own."""
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

        Epsilon, mu, rho, profile and tails are computed from ``mechanism.loss(near)`` alone. A
        purely private mechanism is stated at delta 0 unless `delta` allows a smaller epsilon than
        that of the pure curve.

        Parameters
        ----------
        mechanism, near
            The mechanism that is enforced and drawn, and the neighbouring streams.
        released : str
            Description of the releases, in words.
        horizon : int or None
            Rounds covered; None is an endless stream.
        delta : float
            Delta at which epsilon is stated, in [0, 1).
        reference : str
            Theorem and page of the proof.
        seeded : bool
            Whether the noise is reproducible.
        conditions : tuple of str
            Conditions besides those that follow from the description.
        unit : str
            Unit of the data, if the description allows several.
        **said
            Other fields of the guarantee, which only people read.

        Returns
        -------
        Guarantee
            If the mechanism has no loss, a guarantee without privacy but with the given regret and
            details.

        Raises
        ------
        ValueError
            For a unit that the mechanism does not protect, and for numbers out of range.
        """
        rounds = LARGEST_HORIZON if horizon is None else int(horizon)
        loss = mechanism.loss(near)
        if loss is None:
            own = (*meaning.units(mechanism, near.view, None), "one round")[0]
            none = cls.none(rounds, released, unit=unit or own)
            # The regret bound holds with and without privacy.
            forecast = {name: said[name] for name in ("regret_bound", "details") if name in said}
            return replace(none, **forecast)
        bounds = loss.bare.bounds
        others = [one for one in bounds if not isinstance(one, Pure)]
        pure = len(others) < len(bounds) and loss.mass == 0.0
        # If `delta` allows no smaller epsilon, we state delta 0: pure privacy is the stronger
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
            Description of the releases, in words.
        unit : str
            Unit of the data that one change would affect.

        Returns
        -------
        Guarantee
            With an infinite epsilon, delta 1, and the condition that no noise is added.
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
            Unit of the data that one record stands for.
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

        `moved` over `scale` is the privacy loss of one release; the total over all is rounded up.
        """
        count, page = positive_int("releases", releases), "gaussian" if gaussian else "pure"
        # Releases have separate noise: sensitivities add up in squares for l2, and directly for l1.
        if gaussian:
            total = moved * math.sqrt(count)
            # Products and roots are rounded to nearest, so the computed total may be too small.
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
            Guarantees of mechanisms that were fixed in advance. Each has a description, and all
            have the same change, view and unit. If you choose mechanisms as you go, charge a
            `Ledger`. Pure epsilons add up here; a `Ledger` with ``adaptive=False`` composes many of
            them as Gaussian noise, and states less.
        delta : float, optional
            Delta at which epsilon is stated. Default: the largest delta of the parts.

        Returns
        -------
        Guarantee
            Certified if all parts are. Proof: ``docs/privacy/composition.md``, Theorem 1.

        Raises
        ------
        ValueError
            If there are no parts, or parts without a description or about different things.

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
            An upper bound in [0, 1]; 1 if nothing is known.

        Raises
        ------
        ValueError
            For a negative epsilon, and NaN.
        """
        epsilon = real_in("epsilon", epsilon, "[0, inf]")
        # The stated point also holds if the loss is unknown (ledgers, bare points).
        stated = self.delta if epsilon >= self.epsilon else 1.0
        return min(stated, self.loss.delta(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon proved at `delta`; infinite if there is none.

        Parameters
        ----------
        delta : float
            In [0, 1); 0 asks for pure differential privacy.

        Raises
        ------
        ValueError
            For a delta out of range.
        """
        delta = real_in("delta", delta, "[0, 1)")
        return min(self.epsilon if delta >= self.delta else math.inf, self.loss.epsilon(delta))

    def require(self, budget: Budget) -> None:
        """Raise `BudgetExceeded` unless the guarantee is at least as strong as `budget`.

        Every learner checks the guarantee of its plan in this way, even if the plan was given to
        it.
        """
        if budget.delta == 0.0:  # if the ratio is unbounded, a delta may underflow to 0
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
        """The neighbouring streams, and the observer."""
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
            Also state the guarantee for a person with one round. With a limiter it then protects
            all records of this person, not only the one that counted.

        Returns
        -------
        Guarantee
            Without published claims, which are about single rounds. For one round it is this
            guarantee itself, unless `once`. A pure guarantee stays pure if a person's rounds have a
            pure epsilon.

        Raises
        ------
        ValueError, TypeError
            For bad arguments, if no proof covers several rounds of a person, and for a guarantee
            that is about people with fewer rounds.

        Notes
        -----
        For running sums, sums that are released once, selections of vertices, arms with any of
        these, decisions that are kept or drawn afresh, and steps on sampled records, the cost is
        that of the worst pattern of rounds (``docs/privacy/participation.md``). All other
        mechanisms are charged for a group of `rounds` (``docs/privacy/composition.md``).
        """
        apart = positive_int("separation", separation)
        asked = 2**62 if rounds is None else positive_int("rounds", rounds)
        counted = meaning.records_in_interval(self.description) is not None
        stream = counted or self.unit in ("one round", "one user's record")  # units that are rounds
        if rounds is None and (apart == 1 or not stream):
            raise ValueError("rounds may be None for a stream and a separation above 1 only")
        if not (stream or self.person):
            apart = 1  # the places of records in a data set are data
        most = most_rounds(asked, apart, self.horizon) if stream or self.person else asked
        if not self.private or (most == 1 and not once):
            return self
        if self.person is not None:
            # A pattern that obeys the stricter rule also obeys the rule that was proved.
            if most > self.person[0] or apart < self.person[1]:
                raise ValueError("the guarantee is for people who come less often")
            return self
        if self.description is None or not (stream or self.unit in ("one record", "one report")):
            raise ValueError(
                "the guarantee is not about one mechanism and single records: call this for its "
                "parts"
            )
        loss = self.description.loss(Neighbours(self.change, self.view, most, apart))
        assert loss is not None  # not None, because the mechanism is private
        pure = self.delta == 0.0 and loss.pure < math.inf
        # A pure guarantee of single rounds may have no pure one for people, and then needs a delta.
        delta = 0.0 if pure else self.delta or 1.0 / (10.0 * self.horizon)
        return replace(
            self,
            **_at(loss, delta),
            unit="one person",
            # Published claims are about single rounds.
            claimed=None,
            paper_epsilon=None,
            conditions=self.further,
            person=(most, apart),
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Assumptions of the guarantee that are neither enforced nor proved, one clause each.

        If there is no description, the assumptions are unknown.
        """
        found: tuple[str, ...] = ()
        if self.seeded:
            found = ("the noise is drawn afresh and stays secret",)
        if self.description is None:
            return found
        # If nothing depends on the data, no promise is needed.
        if self.loss.bare != NOTHING:
            promised = (text for text in self.further if text.startswith(PROMISED))
            own = (text.removeprefix(PROMISED).rstrip(".") for text in promised)
            found = (*found, *meaning.promises(self.description), *own)
        # The printed claim of these learners is never certified, even if it happens to follow
        # (docs/privacy/oco_regret.md, "Published parameters").
        printed = self.calibration == "paper" and self.description.kind == "coupled_draws"
        if self.claimed is not None and (printed or not self._claim_follows()):
            epsilon, delta = self.claimed
            said = f"epsilon = {epsilon:.6g}, delta = {delta:.6g}"
            found += (f"nobody relies on what a paper claims instead ({said}, not proved here)",)
        return found

    def _claim_follows(self) -> bool:
        """Return whether the curve proves the claimed epsilon and delta."""
        assert self.claimed is not None
        epsilon, delta = self.claimed
        # `check_claim` uses the same slack.
        return epsilon >= 0.0 and self.delta_at(epsilon) <= delta * (1.0 + 1e-9)

    @property
    def further(self) -> tuple[str, ...]:
        """The issuer's own conditions: those that do not follow from the description."""
        if self.description is None:
            return self.conditions
        first, last = self._own_conditions(self.description)
        return self.conditions[len(first) : len(self.conditions) - len(last)]

    @property
    def derived(self) -> tuple[str, ...]:
        """The conditions that follow from the description; empty without a description."""
        own = self.further
        return tuple(text for text in self.conditions if text not in own)

    @property
    def _numbers(self) -> Any:
        """Numbers of the noise that follow from the description; none without a description."""
        if self.description is None:
            return meaning.Numbers()
        return meaning.numbers(self.description, self.neighbours)

    @property
    def sensitivity(self) -> float | None:
        """Norm of the largest difference of the summed values between neighbouring streams."""
        return self._numbers.sensitivity  # type: ignore[no-any-return]

    @property
    def sensitivity_norm(self) -> str:
        """Norm of `sensitivity`: "l2", "l3", "linf"; "" if there is none."""
        return self._numbers.sensitivity_norm  # type: ignore[no-any-return]

    @property
    def noise_scale(self) -> float:
        """Scale of one noise draw, in units of the summed values; 0 if there is none.

        Scale of the first draw if draws become smaller (``blt_normalised``).
        """
        return self._numbers.noise_scale  # type: ignore[no-any-return]

    @property
    def column_norm(self) -> float | None:
        """Largest column norm of the continual sum; for a person, that of all rounds together."""
        return self._numbers.column_norm  # type: ignore[no-any-return]

    @property
    def noise_multiplier(self) -> float | None:
        """1/mu: the noise scale divided by the norm of everything that one change moves."""
        return None if self.mu is None else 1.0 / self.mu

    # -- what the loss is made of ------------------------------------------------------------------

    @property
    def stated(self) -> tuple[Loss, ...]:
        """The stated loss of the ideal noise, without truncated tails."""
        return self.loss.bare.bounds

    @property
    def beyond(self) -> Loss | None:
        """A loss that proves more than `mu` and `rho`; None if these say all."""
        return next((each for each in self.stated if each.kind not in _NUMBERS), None)

    def _number(self, kind: str, name: str) -> float | None:
        """Return a parameter of the stated loss of this kind; None if there is none."""
        return next((getattr(each, name) for each in self.stated if each.kind == kind), None)

    @property
    def mu(self) -> float | None:
        """Parameter of Gaussian differential privacy, if it proves as much as the curve."""
        return self._number("gdp", "mu")

    @property
    def rho(self) -> float | None:
        """Parameter of zCDP, if it is stated: mu^2 / 2, or a separate one."""
        own = self._number("zcdp", "rho")
        return self._number("gdp", "rho") if own is None else own

    @property
    def profile(self) -> Fields | None:
        """Parameters of a loss that proves more than `mu` and `rho`; "kind" names the loss.

        "pure": `epsilon`. "gaussian" and "renyi": draws composed with bits, see
        ``docs/privacy/couplings.md``. Others: see the page named in `reference`.
        """
        return None if self.beyond is None else self.beyond.to_dict()

    @property
    def truncation_mass(self) -> float:
        """Total variation between real and ideal noise over the horizon; charged to delta."""
        return self.loss.mass


# Pools and resumed learners certify the same plan many times. The caches are `typed` because True
# and 1.0 equal 1 but are not counts; 0 equals 0.0, and the fields repeat delta as it was given.
@lru_cache(maxsize=256, typed=True)
def _find_neighbours(change: str, view: str, rounds: int, separation: int) -> Neighbours:
    return Neighbours(change, view, rounds, separation)


@lru_cache(maxsize=256, typed=True)
def _at(loss: Loss, delta: float) -> Fields:
    """Return the read-only fields of a guarantee that a loss decides, stated at `delta`."""
    epsilon = loss.epsilon(delta)
    own = _choose_bounds(loss.bare, epsilon, delta)
    return {"epsilon": epsilon, "delta": delta, "loss": with_tails(least(*own), loss.mass)}


def _choose_bounds(ideal: Loss, epsilon: float, delta: float) -> tuple[Loss, ...]:
    """Return the bounds on an ideal loss that a guarantee at this point states.

    These are the curve with the least delta at this point and at most one number. The number is mu
    if it proves as much as the loss. It is rho for selections that shrink and for the least of
    several losses.
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
