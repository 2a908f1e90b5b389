"""Every class of the library that holds a state, started and not, with a stream for each."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.audit.replay_cases import CASES, case
from tests.local import local_cases as _servers

from dpoco.errors import HorizonExceeded
from dpoco.learners import LEARNERS
from dpoco.local import DistributionLearner, Hypotheses, LocalHypothesisSelector
from dpoco.random import Source

__all__ = ["ONLINE", "SERVERS", "Online", "server", "snapshots"]

BATCH = tuple(each.class_name for each in LEARNERS if each.plays == "batch")
MECHANISMS = {"NoisyMax": "select", "AboveThreshold": "test"}


class Online:
    """A learner or mechanism with a stream.

    Its state after some rounds is found once, and every case continues from the bytes.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def make(self, source: Source) -> Any:
        """Return one that has not played."""
        return case(self._name)[0](source)

    @functools.cached_property
    def stream(self) -> tuple[Any, ...]:
        """The parts of its records."""
        stream = case(self._name)[1]
        return stream if isinstance(stream, tuple) else (stream,)

    @property
    def rounds(self) -> int:
        """How many there are."""
        return len(self.stream[0])

    def play(self, learner: Any, first: int, last: int) -> Any:
        """Play rounds first ... last - 1."""
        rows = [array[first:last] for array in self.stream]
        single = MECHANISMS.get(type(learner).__name__)
        if single is None:
            return learner.run(*rows)
        return [getattr(learner, single)(row) for row in rows[0]]

    @functools.cached_property
    def states(self) -> list[bytes]:
        """States: unstarted, in the middle, before the last round, and at the end."""
        learner = self.make(Source.seeded(1))
        found, at = [], 0
        for stop in (0, 1, self.rounds // 2, self.rounds - 1, self.rounds):
            with contextlib.suppress(HorizonExceeded):  # alarms may be used up earlier
                self.play(learner, at, stop)
            found.append(learner._to_bytes())
            at = stop
        return found

    @property
    def kind(self) -> type:
        """The class."""
        return CASES[self._name].cls


# Monitors take no records by the round.
ONLINE = {name: Online(name) for name in CASES if not name.startswith((*BATCH, "Monitor"))}


def server(kind: str) -> DistributionLearner:
    """An unstarted server of local reports."""
    more = {"open_rounds": 3} | ({} if kind == "hedge rate" else {"horizon": 40})
    return _servers.build(kind, **more)


def _selector() -> LocalHypothesisSelector:
    selector = LocalHypothesisSelector(Hypotheses(_servers.FC), epsilon=1.0, public_seed=7)
    rng = np.random.default_rng(1)
    for number in (1, 2, 5):
        spec = selector.round_spec(number)
        selector.update([_servers.report(spec, *_servers.some_values(spec, rng))] * 1)
    return selector


SERVERS: dict[str, Callable[[], Any]] = {
    **{
        f"DistributionLearner, {kind}": functools.partial(
            lambda kind: _servers.play(server(kind), 5), kind
        )
        for kind in _servers.KINDS
    },
    "LocalHypothesisSelector": _selector,
}


@functools.cache
def snapshots(name: str) -> list[bytes]:
    """Return states of a subject."""
    if name in ONLINE:
        return ONLINE[name].states
    made = SERVERS[name]()
    return [made.__reduce__()[1][0]]
