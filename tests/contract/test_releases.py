"""What every learner releases, and the state it ends in, stay as they are, to the last bit.

For every option of ``variants.py`` and for the defaults, played round by round and, where there is
a call for it, in one go on records beyond all bounds. So do states of several rounds, what follows
them, and what of them, if spoiled, is refused. So does what engines are built from, what
learners say of themselves and of their traces, and what they refuse.
``python -m tests.pins --write releases`` writes them again after a change of draws, engines or
planners that is meant.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from tests.bits import WORDS, hashed, platform, spoiled_states
from tests.contract.variants import VARIANTS
from tests.descriptions import unchecked
from tests.pins import files

from dpoco import _core
from dpoco.audit import contract_checks
from dpoco.audit._contract import Subject, _standard_subject, _subject
from dpoco.errors import StateError
from dpoco.learners import LEARNERS
from dpoco.learning.state import unpack
from dpoco.privacy.records import Description, to_record
from dpoco.random import Source

LISTED = {each.name: each for each in LEARNERS if contract_checks(each.plays)}
WRITTEN = files.read("releases")
SAME_PLATFORM = WRITTEN.get("platform") == platform()


@functools.cache
def named_subject(name: str) -> Subject:
    """Return what is played under a name: calibrated once for all tests here."""
    return _standard_subject(name) if name in LISTED else _subject(*VARIANTS[name])


def beyond(part, *spoiled):
    """Return records of which some break any bound; from the fourth on some are no numbers."""
    array = np.asarray(part)
    if array.dtype != np.float64:
        return part
    wild = array * np.where(np.arange(len(array)) % 3 == 1, 9.0, 1.0).reshape(
        -1, *[1] * (array.ndim - 1)
    )
    for at, value in enumerate(spoiled):
        wild.reshape(len(wild), -1)[4 + 5 * at, -1] = value
    return wild


def restored(subject, state: bytes) -> list[bytes]:
    """Return what engines hold after a state, and after some with a word spoiled, or "refused"."""
    held, learner = [], subject.fresh()
    first = learner._engine
    first.restore(state)
    for at in range(0, len(state), 8 * max(1, len(state) // 320)):
        # A whole learner would certify its plan again and again.
        engine = learner._build_engine(Source.seeded(1)._claim())
        word = WORDS[at // 8 % len(WORDS)]
        try:
            engine.restore(state[:at] + word + state[at + 8 :])
            held.append(engine.state())
        except StateError:
            held.append(b"refused")
    return [first.state(), *held]


def released(name: str) -> list[str]:
    """Return hashes of what is released and of states, round by round and in one call."""
    subject = named_subject(name)
    learner = subject.fresh()
    found = [np.asarray(each) for each in subject.release_all(learner)]
    states = []
    with suppress(StateError, AttributeError):  # learners of custom losses have none
        states.append(learner._engine.state())
        states += restored(subject, states[0])
    if subject.runs and subject.plays != "batch" and name != "above, spread":
        whole = subject.fresh(2)
        wild = tuple(map(beyond, subject.part(0, 24)))
        if hasattr(whole, "run"):
            played = whole.run(*wild)
            arms = hasattr(played, "actions")  # of which decisions and losses are other names
            parts = ("actions", "rewards") if arms else ("decisions", "losses")
            found += [np.asarray(getattr(played, n)) for n in parts if hasattr(played, n)]
        with suppress(StateError, AttributeError):
            states.append(whole._engine.state())
    shapes = [each.shape for each in found], [each == b"refused" for each in states]
    return [hashed([(each.shape, each.tobytes()) for each in found]), hashed(states),
            hashed(*shapes)]  # fmt: skip


def shown(engine: Any, record: tuple[Any, ...] = ()) -> list[Any]:
    """Return what an engine answers to whoever asks without arguments, or for this record."""
    # What covariances are computed from is read off the state, which has a hash already.
    names = [each for each in dir(engine) if each[0] != "_" and each not in ("metric", "pushes")]
    row = [np.array(each) for each in record if np.ndim(each) == 1]
    calls = [(each, ()) for each in names]
    for each in {"leaf", "nonprivate_kernel"} & {*names} if row else ():
        forms = ((row[0],), (0.1 * row[0], row[0], row[0], 0.4), (1, row[0], 0.4), (3,))
        calls += [(each, form) for form in forms]
    asked = [(getattr(engine, each), form) for each, form in calls]
    answers = (answer(each, *form) if callable(each) else plain(each) for each, form in asked)
    return [each for each in answers if not str(each).startswith("TypeError")]


def continued(name: str) -> list[str]:
    """Return hashes of states of several rounds, what follows them, and what of them is refused."""
    subject = named_subject(name)
    learner, taker = subject.fresh(), subject.fresh()
    play = subject.run if subject.runs else subject.play
    states, ends, taken = [b""], [], hashlib.sha256()
    for stop in (0, 1, 7, 12, 24):
        subject.play(learner, learner.round, stop)
        state = learner._payload()
        after = subject.kind._from_bytes(learner._to_bytes())
        ends += [
            shown(after._engine, subject.record(0)),
            plain(list(play(after, stop))),
            after._payload(),
        ]
        for each in dict.fromkeys(spoiled_states(state, states[-1])):
            try:
                taker._go_on(each)
                taken.update(taker._payload())
            except StateError as error:
                taken.update(str(error).encode())
        states.append(state)
    return [hashed(states), hashed(ends), taken.hexdigest()[:16]]


# Ways to pass a record, of which the first is refused.
CASTS = (
    lambda row: row[:-1], lambda row: row.astype(np.float32), lambda row: np.repeat(row, 2)[::2],
    lambda row: row.tolist(),
)  # fmt: skip


def plain(value: Any) -> Any:
    """Return what can be hashed of an argument or answer; of compiled objects their class."""
    if isinstance(value, dict):
        return [(key, plain(value[key])) for key in sorted(value) if key != "key"]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Description):
        return plain(to_record(value))
    if isinstance(value, np.ndarray | np.generic):
        return value.shape, value.tobytes()
    return value if isinstance(value, str | int | float | bytes | None) else type(value).__name__


def with_one_replaced(value: Any, others: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """Yield copies of a dict, list, tuple or description, each with one value replaced."""
    if isinstance(value, Description):
        names = [each.name for each in fields(value) if each.init]
        for name, other in ((n, o) for n in names for o in others(getattr(value, n))):
            yield unchecked(value, **{name: other})
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        for other in others(each):
            copy = dict(value) if isinstance(value, dict) else list(value)
            copy[key] = other
            yield copy


def spoiled(value: Any) -> Iterator[Any]:
    """Yield copies of settings, each with one number in them replaced by one to be refused."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield 0
    elif isinstance(value, float):
        yield from (math.nan, math.inf, -1.0, 0.0)
    elif isinstance(value, dict | list | tuple | Description):
        yield from with_one_replaced(value, spoiled)


DOMAIN, CLIPPER = _core.Domain, _core.RecordClipper
OTHER_DOMAINS = [_core.LpBall(d, 2.0, 1.0) for d in (1, 4)]
OTHER_CLIPPERS = [_core.RecordClipper(d, 1.0, 1.0, 1.0) for d in (1, 4)]


def moved(value: Any) -> Iterator[Any]:
    """Yield copies of settings, each with one number or object replaced by one that is near."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield from (value + 1, value - 1, 2 * value)
    elif isinstance(value, float):
        scaled = (0.5 * value, 0.95 * value, 1.05 * value, 2.0 * value)
        yield from (*scaled, 1.0, 1.0 + 1e-9, 1e-100, 0.6e-100, 2.0**-49, 1e200)
    elif isinstance(value, np.ndarray):
        yield from (value[:-1], np.full_like(value, np.nan), np.zeros_like(value))
    elif isinstance(value, str):
        yield from ("tree", "maximal", "density_ratio", "anchored", "dartboard")
    elif isinstance(value, DOMAIN):
        yield from OTHER_DOMAINS
    elif isinstance(value, CLIPPER):
        yield from OTHER_CLIPPERS
    elif isinstance(value, dict | list | tuple | Description):
        if isinstance(value, list):
            yield from ([], value[:-1])
        yield from with_one_replaced(value, moved)


def built(name: str) -> list[str]:
    """Return hashes of what engines refuse of settings near their own, and of what fits hold."""
    subject = named_subject(name)
    refused: list[Any] = []
    with telling([], refused, moved):
        learner = subject.fresh()
        if subject.plays == "batch":
            subject.release_all(learner)
    if subject.plays != "batch":
        return [hashed(refused)]
    rows, labels = subject.part(0, 24)
    learner._source = Source.seeded(7)  # a fitted model holds none
    engine = learner._engine()
    held = [answer(engine.release), shown(engine)]
    for first in range(0, 24, 5):
        engine.add(rows[first : first + 5], labels[first : first + 5])
        held += [engine.nonprivate_sum(), engine.variates_drawn()]
    held += [answer(engine.add, rows, labels), answer(engine.release), answer(engine.release)]
    held += [engine.variates_drawn()]
    return [hashed(refused), hashed(held)]


@contextmanager
def telling(
    seen: list[Any], refused: list[Any], spoil: Callable[[Any], Iterator[Any]] = spoiled
) -> Iterator[None]:
    """Append what compiled classes are built from, and what of it, if spoiled, they refuse."""
    kept = {name: kind for name, kind in vars(_core).items() if type(kind) is type(_core.Domain)}

    def wrapped(name: str, kind: Any) -> Callable[..., Any]:
        def build(*given: Any, **named: Any) -> Any:
            seen.append((name, plain(given), plain(named)))
            refused.extend(answer(kind, *each) for each in spoil(given))
            return kind(*given, **named)

        for key in vars(kind) if isinstance(kind, type) else ():
            if not key.startswith("_"):  # other ways to build one
                setattr(build, key, wrapped(f"{name}.{key}", getattr(kind, key)))
        return build

    with pytest.MonkeyPatch.context() as patch:
        for name, kind in kept.items():
            patch.setattr(_core, name, wrapped(name, kind))
        yield


def answer(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return what a call returns, or the error that it ends in."""
    try:
        return plain(call(*given, **named))
    except Exception as error:
        return repr(error).partition("Invoked with")[0]


def described(name: str) -> list[str]:
    """Return hashes of settings, of what learners say and refuse, and of traces."""
    subject = named_subject(name)
    settings: list[Any] = []
    refused: list[Any] = []
    with telling(settings, refused):
        learner = subject.fresh()
        if subject.plays == "batch":
            subject.release_all(learner)
    said = [repr(learner), learner.guarantee.regret_bound, plain(learner.guarantee.details)]
    said += [str(subject.fresh(**each).guarantee) for each in ({"seed": None}, {"source": None})]
    said += [answer(getattr(learner, each)) for each in ("_entries",) if hasattr(learner, each)]
    said += [plain(getattr(learner, each, None)) for each in ("_width", "_direct", "alarms_left")]
    with suppress(StateError, AttributeError):
        header = unpack(learner._to_bytes())[0]["object"]
        said += [learner._header_dimension(header), repr(header)]
    if not subject.runs or not hasattr(learner, "run") or subject.plays == "sums":
        return [hashed(settings), hashed(refused), hashed(said)]
    wild = tuple(beyond(part, math.nan, -math.inf, math.inf) for part in subject.part(0, 24))
    raising = "on_violation" in learner.get_params()
    for rows in [slice(0, 24), slice(1, 2), slice(3, 4)] if raising else []:
        strict = subject.fresh(on_violation="raise")
        said.append([answer(strict.run, *(part[rows] for part in wild)), strict.round])
    whole = subject.fresh(3)
    trace, decision = whole.run(*wild), subject.release_all(subject.fresh(3))[0]
    shown = [each for each in dir(trace) if not each.startswith("_")]
    said += [str(trace), whole.round, *(answer(getattr, trace, each) for each in shown)]
    for each in (decision, 1, np.arange(24) % 3, -1, [9] * 24, [0] * 3, [0.0] * 9):
        calls = (getattr(trace, verb, None) for verb in ("regret", "comparator_losses"))
        said += [answer(call, each) for call in calls if call is not None]
    said.append(answer(lambda: repr(trace.nonprivate_records)))
    for cast in CASTS if wild[0].ndim == 2 and subject.plays != "arms" else ():
        first, *rest = subject.record(0)
        given = cast(np.asarray(first)), *rest
        asked = answer(subject.ask, whole := subject.fresh(4), 0)
        said.append([asked, answer(whole.observe, *given), whole.round])
    return [hashed(settings), hashed(refused), hashed(said)]


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.skipif(not SAME_PLATFORM, reason="parameters have other last digits here")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_descriptions_have_not_moved(name):
    assert described(name) == WRITTEN["described"][name]


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.skipif(not SAME_PLATFORM, reason="parameters have other last digits here")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_refusals_have_not_moved(name):
    assert built(name) == WRITTEN["built"][name]


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.skipif(not SAME_PLATFORM, reason="parameters have other last digits here")
@pytest.mark.parametrize("name", WRITTEN.get("continued", {}))
def test_states_have_not_moved(name):
    assert continued(name) == WRITTEN["continued"][name]


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_releases_have_not_moved(name):
    now, was = released(name), WRITTEN["releases"][name]
    assert now[2:] == was[2:]
    if SAME_PLATFORM:
        assert now == was


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_traces_have_the_losses_of_their_decisions(name):
    """Of records with gaps and beyond all bounds, too: both as they were clipped."""
    subject = named_subject(name)
    if subject.plays not in ("records", "experts", "surface") or not subject.runs:
        return
    trace = subject.fresh().run(
        *(beyond(part, math.nan, -math.inf, math.inf) for part in subject.part(0, 24))
    )
    own = [trace.comparator_losses(each)[t] for t, each in enumerate(trace.decisions)]
    np.testing.assert_allclose(trace.losses, own, rtol=1e-12, atol=1e-15)


def measure():
    """Return what `tests/pins/releases.json` holds."""
    names = [*LISTED, *VARIANTS]
    found = {"releases": {name: released(name) for name in names}}
    found["described"] = {name: described(name) for name in names}
    found["built"] = {name: built(name) for name in names}
    found["continued"] = {}
    for name in names:
        with suppress(StateError, AttributeError):  # batch methods have no states either
            found["continued"][name] = continued(name)
    return {"platform": platform(), **found}
