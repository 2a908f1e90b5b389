"""People who come back: how often each may come, protection of all their rounds, enforcement.

Claim of the limiter: with an exact counter for every person, the streams that reach the learner in
two worlds differ in at most `rounds` rounds of one person, any two of them at least `separation`
apart, however often this person really comes. Theorem and proof: ``docs/privacy/participation.md``.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core
from dpoco._validation import Fields, Named, positive_int, without_mask
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting import conditions as say
from dpoco.errors import BudgetExceeded, CalibrationError, StateError

Parameters = TypeVar("Parameters")

Person = int | str | bytes | None
# The persons of several records, or of one record.
Persons = ArrayLike | Sequence[Person] | None
# Largest count that a counter holds.
LARGEST_ROUNDS = 2**24 - 1
_KEY = 16
# Tolerance for logarithms of epsilon, and number of steps: the search ends just below the budget.
_CLOSE, _SEARCHES = 1e-6, 64
# Trial budgets below a thousandth of epsilon also have a smaller delta.
_ALL_DELTA = 1e3
_KINDS = {int: b"i", str: b"s", bytes: b"b"}


@dataclass(frozen=True)
class Participation:
    """How often one person may come; a learner then protects all these rounds together.

    Parameters
    ----------
    rounds : int or None
        Largest number of rounds of one person, at least 1. None: as many as `separation` allows,
        which must then be above 1.
    separation : int, default 1
        Smallest distance between two of these rounds; 1 allows neighbouring rounds. Rounds are
        counted in order of arrival.
    enforced : bool, default True
        Whether the learner enforces the rule. Every record then comes with its ``person``, and the
        learner silently plays a record beyond the limit as an empty one. False: you declare that
        someone else enforces the rule.
    max_persons : int, default 10000000
        Largest number of distinct people, at about 30 bytes each. Rounds that bring another person
        are refused; the guarantee does not cover this refusal.

    Raises
    ------
    ValueError, TypeError
        If a number is out of range.

    Examples
    --------
    >>> import dpoco
    >>> dpoco.Participation(rounds=10, separation=100).largest(1000)
    10
    >>> dpoco.Participation(rounds=None, separation=100).largest(1000)
    10
    """

    rounds: int | None
    separation: int = 1
    enforced: bool = True
    max_persons: int = 10_000_000

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.rounds is not None:
            positive_int("rounds", self.rounds, maximum=LARGEST_ROUNDS)
        positive_int("separation", self.separation)
        positive_int("max_persons", self.max_persons)
        if not isinstance(self.enforced, bool):
            raise TypeError("enforced must be a bool")
        if self.rounds is None and self.separation == 1:
            raise ValueError("rounds may be None only with a separation above 1")

    def check(self, horizon: int) -> None:
        """Raise `ValueError` if `separation` is beyond the horizon: no one could come twice."""
        if self.separation > horizon:
            raise ValueError(f"separation must be at most the horizon, {horizon}")

    def largest(self, horizon: int) -> int:
        """Return the largest number of one person's rounds among `horizon` rounds.

        Parameters
        ----------
        horizon : int
            Rounds of the stream, at least 1.
        """
        most = -(-horizon // self.separation)
        return most if self.rounds is None else min(self.rounds, most)

    def of(self, guarantee: Guarantee) -> Guarantee:
        """Return the guarantee for all rounds of one person, from one for single rounds.

        Parameters
        ----------
        guarantee : Guarantee
            Guarantee for single rounds. One without privacy is returned without a further
            condition.

        Raises
        ------
        ValueError, TypeError
            If no guarantee is proved for several rounds of a person.
        """
        person = guarantee.for_person(self.rounds, self.separation, once=True)
        if not person.private:
            return person
        # If someone else enforces the rule, it is their promise. If the library enforces it, a
        # refusal reveals that there are `max_persons` people, which the guarantee does not cover.
        own = say.promise(say.LIMIT_KEPT)
        if self.enforced:
            own = say.REFUSED_PEOPLE.format(most=self.max_persons)
        return replace(person, conditions=(*person.conditions, own))

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Named) -> Participation:
        """Return the object written by `to_dict`; `StateError` for anything else."""
        if not isinstance(record, Mapping) or not set(record) == set(cls.__dataclass_fields__):
            raise StateError("a participation has rounds, separation, enforced and max_persons")
        return cls(**record)


def for_people(
    calibrate: Callable[..., Parameters],
    guarantee: Callable[[Parameters], Guarantee],
    participation: Participation,
    budget: Budget,
) -> Parameters:
    """Return the parameters with the least noise that meet a budget for all rounds of a person.

    The search tries about ten budgets for single rounds, and calls `calibrate` for each. The
    guarantee does not depend on the search, since the result is certified.

    Parameters
    ----------
    calibrate
        Returns parameters for a `budget` of single rounds.
    guarantee
        Returns the certified guarantee of parameters, for single rounds.
    participation, budget
        The rule, and the budget for all rounds of a person.

    Raises
    ------
    CalibrationError
        If no noise meets the budget.
    """
    kept: Parameters | None = None
    why = CalibrationError("no noise meets this budget")
    # Logarithms of the largest budget known to be met, and of the smallest known to be exceeded.
    low, high = -math.inf, math.inf
    point, slope, last = math.log(budget.epsilon), 1.0, (math.nan, math.nan)
    for _ in range(_SEARCHES):
        # For such a small epsilon, delta dominates: the noise only grows if delta also decreases.
        falling = min(1.0, _ALL_DELTA * math.exp(point) / budget.epsilon)
        try:
            single = Budget._derived(math.exp(point), budget.delta * falling)
            parameters = calibrate(budget=single)
        except CalibrationError as error:
            if kept is not None:
                break
            why = error
            if high == math.inf or high - point < _CLOSE:
                break
            # The last step may have been too large.
            low, point = point, 0.5 * (point + high)
            continue
        person = participation.of(guarantee(parameters))
        # An epsilon of 0 has no logarithm.
        spent = max(person.epsilon_at(budget.delta), 1e-9 * budget.epsilon)
        excess = math.log(spent / budget.epsilon)
        try:
            person.require(budget)
        except BudgetExceeded:
            # Only `require` decides. It refused this budget, so the next one must be smaller,
            # whatever the excess.
            high, excess = point, max(excess, _CLOSE)
        else:
            low, kept = point, parameters
            if excess >= -_CLOSE or point == math.log(budget.epsilon):
                break
        if math.isfinite(excess - last[1]) and point != last[0]:
            # The slope comes from the last two points. The limits keep one outlier from causing a
            # large step.
            slope = min(max((excess - last[1]) / (point - last[0]), 0.5), 8.0)
        last = (point, excess)
        # The step aims just below the budget, since parameters just above it would be refused.
        step = (excess + 0.5 * _CLOSE) / slope if math.isfinite(excess) else 1.0
        point -= step
        if not low < point < high:
            point = 0.5 * (low + high)
        if high - low < _CLOSE:
            break
    if kept is None:
        raise CalibrationError(f"for all rounds of a person: {why}") from why
    return kept


class Digests(bytes):
    """Digests of the people of some records, 16 bytes each, made by `Limiter.digests`."""


class Limiter:
    """Decides which records are admitted, so that people keep to a `Participation`.

    It stores a digest of each person under a secret key, never a name, and a separate counter.
    Whether a record was admitted is as secret as the record. Not thread-safe, since a learner plays
    its rounds one by one.

    Parameters
    ----------
    rule : Participation
        The rule.
    horizon : int
        Rounds of the stream.
    key : bytes, optional
        Secret bytes from which the digests' key is derived; drawn if not given.
    records : int, optional
        Records of one person that are admitted in a round, if a round is an interval with any
        number of records. None: a round has one record.
    """

    _people: _core.Participants | _core.IntervalParticipants

    def __init__(
        self,
        rule: Participation,
        horizon: int,
        key: bytes | None = None,
        *,
        records: int | None = None,
    ) -> None:
        secret = secrets.token_bytes(32) if key is None else key
        # The text separates this key from others that are derived from the same claim.
        self._key = hashlib.sha256(b"dpoco participants" + secret).digest()[:_KEY]
        self._kind: type | None = None
        # Counters are needed only if they bind before the separation does. A single round is
        # counted in any case, since its counter may go on in a later part of the stream.
        most = 0 if rule.rounds is None else rule.rounds
        if 1 < most >= -(-horizon // rule.separation) and rule.separation <= rule.max_persons:
            most = 0
        self._most_people = rule.max_persons
        numbers = rule.separation, rule.max_persons
        try:
            if records is None:
                self._people = _core.Participants(most, *numbers)
            else:
                most = rule.largest(horizon)
                self._people = _core.IntervalParticipants(most, *numbers, records)
        except ValueError as error:
            raise ValueError(f"participation cannot be enforced: {error}") from None

    @property
    def is_new(self) -> bool:
        """Whether nobody has come yet."""
        return self._people.people == 0

    def digests(self, persons: Persons, rounds: int | None = None) -> Digests:
        """Return 16 bytes for each of these people, or raise; the counters do not change.

        Parameters
        ----------
        persons : int, str or bytes, or an array_like of one of these with shape (T,)
            Identifiers, always of the same type: 5 and "5" would be two people.
        rounds : int, optional
            The required length T; None for a single person.

        Raises
        ------
        RoundOrderError
            If more people would have come than `max_persons`.
        ValueError, TypeError
            For another type than before, or another shape. No message contains a name.
        """
        kind, digests = self._kind, b""
        if rounds is None and type(persons) is int and -(2**63) <= persons < 2**63:
            # A single name is hashed as the bytes that it has in an array. Building the array would
            # take most of the time.
            kind = int
            digests = _core.digests_of_texts(
                self._key, [persons.to_bytes(8, "little", signed=True)]
            )
        elif isinstance(names := self.names(persons, rounds), np.ndarray):
            kind, digests = int, _core.digests_of_integers(self._key, names)
        elif names:
            kind = str if isinstance(names[0], str) else bytes
            # This error handler accepts all names; an error of the codec would show the name.
            texts = [n.encode(errors="surrogatepass") if kind is str else n for n in names]
            digests = _core.digests_of_texts(self._key, texts)
        if self._kind not in (None, kind):
            raise TypeError(f"persons were {self._kind.__name__} before; use only one type")
        # All checks come before any change.
        self._people.require_room(digests)
        self._kind = kind
        return Digests(digests)

    @staticmethod
    def names(persons: Persons, rounds: int | None) -> NDArray[np.int64] | list[Any]:
        """Return names as an array of integers, or as a list of only str or only bytes."""
        given: Any = [persons] if rounds is None else without_mask(persons)
        if rounds is not None and (isinstance(given, (str, bytes)) or np.shape(given) != (rounds,)):
            raise ValueError(f"persons must have shape ({rounds},)")
        if isinstance(given, np.ndarray) and given.dtype.kind == "S":
            raise TypeError("persons of bytes must be a list, since an array drops trailing zeros")
        if not (isinstance(given, np.ndarray) and given.dtype.kind in "iu"):
            names = given.tolist() if isinstance(given, np.ndarray) else list(given)
            for kind in (str, bytes):
                if all(isinstance(name, kind) for name in names):
                    return names
            # A bool is an int in Python, so True would be person 1.
            if not all(isinstance(name, (int, np.integer)) for name in names) or any(
                isinstance(name, bool) for name in names
            ):
                raise TypeError("persons must be all int, all str or all bytes")
            given = names
        try:
            # The conversion below would turn these unsigned numbers into negative ones.
            if isinstance(given, np.ndarray) and given.size and given.max() >= 2**63:
                raise OverflowError
            return np.ascontiguousarray(given, dtype=np.int64)
        except OverflowError:
            raise ValueError("persons must be integers of 64 bits, with their sign") from None

    def has_room_behind(self, waiting: int) -> bool:
        """Return whether another person fits even if all `waiting` records are of new people.

        If not, only `admit` can tell, since it knows who has come before.
        """
        return self._people.people + waiting < self._most_people

    def admit(self, first: int, digests: bytes) -> NDArray[np.bool_]:
        """Return which records from round `first` on are admitted, and count them.

        There is one record per round, or all records are of this round if rounds are intervals.

        Parameters
        ----------
        first : int
            Round of the first record. Rounds never decrease from call to call.
        digests : bytes
            16 bytes a record, as `digests` returns them.

        Returns
        -------
        ndarray of bool, shape (T,)
            As secret as the records. O(T) time, and memory for each new person.
        """
        return self._people.admit(first, digests)

    def state(self) -> bytes:
        """Return the whole state in bytes; it is as secret as the noise key."""
        kind = b"-" if self._kind is None else _KINDS[self._kind]
        return self._key + kind + self._people.state()

    def restore(self, state: bytes) -> None:
        """Continue from a state; `StateError` for other bytes, or a state under another rule."""
        kinds = {b"-": None, **{name: kind for kind, name in _KINDS.items()}}
        kind = state[_KEY : _KEY + 1]
        if len(state) <= _KEY or kind not in kinds:
            raise StateError("state is corrupt: its people are missing")
        self._people.restore(state[_KEY + 1 :])
        self._key, self._kind = state[:_KEY], kinds[kind]
