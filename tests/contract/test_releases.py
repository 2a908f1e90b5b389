"""What every learner releases, and the state it ends in, stay as they are, to the last bit.

For every option of ``variants.py`` and for the defaults, played round by round and, where there is
a call for it, in one go on records beyond all bounds. ``python tests/contract/test_releases.py``
writes ``releases.json``, after a change of draws, engines or planners that is meant.
"""

from __future__ import annotations

import json
import math
import os
import struct
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.bits import hashed, platform
from tests.contract.variants import VARIANTS

from dpoco.audit import contract_checks
from dpoco.audit._contract import _listed, _subject
from dpoco.errors import StateError
from dpoco.learners import LEARNERS

FILE = Path(os.environ.get("DPOCO_RELEASES", Path(__file__).with_name("releases.json")))
LISTED = {each.name: each for each in LEARNERS if contract_checks(each.plays)}
WORDS = [struct.pack("<d", x) for x in (math.nan, math.inf, -1.0, 1e300)] + [
    struct.pack("<Q", n) for n in (0, 1, 2**63)
]
WRITTEN = json.loads(FILE.read_text()) if FILE.exists() else {}
SAME_PLATFORM = WRITTEN.get("platform") == platform()


def beyond(part):
    """Return records of which some break any bound."""
    array = np.asarray(part)
    if array.dtype != np.float64:
        return part
    return array * np.where(np.arange(len(array)) % 3 == 1, 9.0, 1.0).reshape(
        -1, *[1] * (array.ndim - 1)
    )


def restored(subject, state: bytes) -> list[bytes]:
    """Return what engines hold after a state, and after some with a word spoiled, or "refused"."""
    held, first = [], subject.fresh()._engine
    first.restore(state)
    for at in range(0, len(state), 8 * max(1, len(state) // 320)):
        engine, word = subject.fresh()._engine, WORDS[at // 8 % len(WORDS)]
        try:
            engine.restore(state[:at] + word + state[at + 8 :])
            held.append(engine.state())
        except StateError:
            held.append(b"refused")
    return [first.state(), *held]


def released(name: str) -> list[str]:
    """Return hashes of what is released and of states, round by round and in one call."""
    subject = _listed(name) if name in LISTED else _subject(*VARIANTS[name])
    learner = subject.fresh()
    found = [np.asarray(each) for each in subject.released(learner)]
    states = []
    with suppress(StateError, AttributeError):  # learners of custom losses have none
        states.append(learner._engine.state())
        states += restored(subject, states[0])
    if subject.runs and subject.plays != "batch" and name != "above, spread":
        whole = subject.fresh(2)
        wild = tuple(map(beyond, subject.part(0, 24)))
        if hasattr(whole, "run"):
            played = whole.run(*wild)
            parts = [n for n in ("decisions", "actions", "losses", "rewards") if hasattr(played, n)]
            found += [np.asarray(getattr(played, n)) for n in parts]
        with suppress(StateError, AttributeError):
            states.append(whole._engine.state())
    shapes = [each.shape for each in found], [each == b"refused" for each in states]
    return [hashed([(each.shape, each.tobytes()) for each in found]), hashed(states),
            hashed(*shapes)]  # fmt: skip


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_releases_have_not_moved(name):
    now, was = released(name), WRITTEN["releases"][name]
    assert now[2:] == was[2:]
    if SAME_PLATFORM:
        assert now == was


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    releases = {name: released(name) for name in [*LISTED, *VARIANTS]}
    FILE.write_text(json.dumps({"platform": platform(), "releases": releases}, indent=0) + "\n")
