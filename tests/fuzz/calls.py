"""Public methods with wrong arguments, in a wrong order.

A refused call raises a documented error, leaves the state as it was, byte for byte, and says
nothing about the data.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.fuzz.mutations import MARK_TEXT, odd, require
from tests.fuzz.subjects import ONLINE, SERVERS, Online, _servers, snapshots

import dpoco
from dpoco.local import ClientPool, Hypotheses, LocalClient

__all__ = ["attempt", "subjects"]

DOCUMENTED = (ValueError, TypeError, dpoco.DpocoError)
# Subclasses of ValueError that only carelessness raises; text may quote what it failed on.
CARELESS = (UnicodeError, np.exceptions.AxisError)

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def subjects() -> dict[str, Callable[[random.Random], None]]:
    """Return a function for each learner, mechanism, client and server; fits are the contract's."""
    found: dict[str, Callable[[random.Random], None]] = {
        name: functools.partial(_one_online, online) for name, online in ONLINE.items()
    }
    for name in SERVERS:
        found[name] = functools.partial(_one_server, name)
    for kind in ("bit", "two bits", "subset", "hedge", "private"):
        found[f"LocalClient, {kind}"] = functools.partial(_one_client, kind, False)
        found[f"ClientPool, {kind}"] = functools.partial(_one_client, kind, True)
    return found


def attempt(
    thing: Any, call: Call, state: Callable[[Any], Any], *, secret: bool = True
) -> BaseException | None:
    """Make a call; return what was raised, if it may be."""
    name, arguments, options = call
    before = state(thing)
    try:
        getattr(thing, name)(*arguments, **options)
    except DOCUMENTED as error:
        require(not isinstance(error, CARELESS), f"{name}: {type(error).__name__}")
        shown: BaseException | None = error
        while secret and shown is not None:  # what a traceback would print
            quoted = MARK_TEXT in str(shown)
            require(not quoted, f"{name}: the message quotes the data: {shown}")
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
        require(state(thing) == before, f"{name}: refused ({error!r}), and changed the state")
        return error
    return None


def _spoiled(rng: random.Random, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments of which most often one is wrong."""
    given = list(values)  # `odd` copies what it changes
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        if given:
            at = rng.randrange(len(given))
            given[at] = odd(rng, given[at])
    kind = rng.randrange(12)
    if kind == 0 and given:
        given.pop()
    elif kind == 1:
        given.append(odd(rng, 1.0))
    return tuple(given)


def _one_online(online: Online, rng: random.Random) -> None:
    thing = online.kind._from_bytes(rng.choice(online.states))
    for _ in range(rng.randrange(1, 5)):
        name, values = _online_call(online, thing, rng)
        options: dict[str, Any] = {}
        if name == "run" and rng.random() < 0.2:
            key = rng.choice(["checkpoint_every", "record_decisions", "progress", "own"])
            value = odd(rng, 1)
            # What a caller's function raises ends a run where it stands.
            options = {} if callable(value) and key == "progress" else {key: value}
        attempt(thing, (name, _spoiled(rng, values), options), _saved)
    if hasattr(thing, "decide") and not hasattr(thing, "arms"):
        try:
            decision = np.asarray(thing.decide(), dtype=float)
        except dpoco.HorizonExceeded:
            return
        assert np.isfinite(decision).all(), "a decision is not finite"


def _saved(thing: Any) -> bytes:
    return thing._to_bytes()


def _online_call(online: Online, thing: Any, rng: random.Random) -> tuple[str, list[Any]]:
    at = rng.randrange(online.rounds - 2)
    row = [np.array(array[at]) for array in online.stream]
    rows = [np.array(array[at : at + 2]) for array in online.stream]
    if isinstance(thing, dpoco.mechanisms.ContinualSum):
        return rng.choice([("push", row), ("run", rows), ("variance", [1])])
    if isinstance(thing, dpoco.mechanisms.NoisyMax):
        return "select", row
    if isinstance(thing, dpoco.mechanisms.AboveThreshold):
        return "test", [float(row[0]), 0.0]
    if hasattr(thing, "arms"):
        return rng.choice(
            [
                ("decide", row[:1]), ("observe", [float(row[1][0])]), ("run", rows),
                ("recommend", rows[:1]), ("skip", []),
            ]
        )  # fmt: skip
    row = [float(value) if value.ndim == 0 else value for value in row]
    return rng.choice([("decide", []), ("observe", row), ("observe", row), ("run", rows)])


def _one_server(name: str, rng: random.Random) -> None:
    thing = SERVERS[name]() if name == "LocalHypothesisSelector" else None
    if thing is None:
        thing = dpoco.local.DistributionLearner._from_bytes(snapshots(name)[0])
    learner = hasattr(thing, "predict")
    for _ in range(rng.randrange(1, 5)):
        specs = [o.spec for o in thing._open.values()] if learner else [thing.round_spec(3)]
        spec = rng.choice(specs)
        try:
            report = _servers.report(spec, *_any_values(spec, rng))
        except ValueError:  # nothing that can be sent
            report = _servers.report(spec, *(0 for _ in range(spec.width)))
        calls: list[tuple[str, list[Any]]] = [
            ("update", [spec, report] if learner else [report]),
            ("update", [spec, [report, report]] if learner else [[report, report]]),
            ("guarantee_for", [2, 1e-6]),
        ]
        if learner:
            calls += [
                ("round_spec", []), ("predict", []),
            ]  # fmt: skip
        else:
            calls += [("round_spec", [4]), ("confidence_set", [0.1]), ("expected_tv_bound", [5])]
        method, values = rng.choice(calls)
        # A report is private by itself: its values are no secret.
        attempt(thing, (method, _spoiled(rng, values), {}), _server_state, secret=False)
    weights = thing.weights if learner else thing.posterior()
    assert np.isfinite(weights).all(), "weights are not finite"


def _any_values(spec: Any, rng: random.Random) -> tuple[Any, ...]:
    width = spec.width + rng.choice((0, 0, 0, -1, 1))
    if rng.random() < 0.2:
        return tuple(rng.choice((-1, 0, 2, 5, 2**31 - 1)) for _ in range(width))
    return tuple(sorted(rng.sample(range(6), min(6, max(0, width))))) if width > 1 else (1,) * width


def _server_state(thing: Any) -> Any:
    if hasattr(thing, "_to_bytes") and not hasattr(thing, "predict"):
        return thing._to_bytes()
    return thing.__reduce__()[1][0]


def _client(kind: str, many: bool) -> tuple[Any, Any]:
    learner = _servers.build(kind)
    protect = "label_and_context" if kind == "private" else "label"
    options = {"protect": protect, "simulation_seed": 3}
    hypotheses = Hypotheses(_servers.FC)
    if many:
        return ClientPool(hypotheses, 3, 4.0, 3, **options), learner.round_spec()
    return LocalClient(hypotheses, 4.0, 3, **options), learner.round_spec()


def _one_client(kind: str, many: bool, rng: random.Random) -> None:
    client, spec = _client(kind, many)
    label: Any = np.array([0, 2, -1]) if many else 2
    for _ in range(rng.randrange(1, 4)):
        given = rng.choice([spec, spec, spec.to_bytes()])
        values = [given, None, label] + (
            [np.array([2, 0, 1])] if many and rng.random() < 0.5 else []
        )
        attempt(client, ("respond", _spoiled(rng, values), {}), _client_state)


def _client_state(client: Any) -> Any:
    spent = client.spent
    return (
        spent.tolist() if isinstance(spent, np.ndarray) else spent,
        client._source.to_bytes(),
        client._nonces.to_bytes(),
    )
