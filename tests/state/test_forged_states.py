"""State files that lie under a right checksum: whatever the learner, none of them is accepted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.contract.variants import VARIANTS
from tests.forged import Forged

from dpoco.audit import contract_checks
from dpoco.audit._contract import ROUNDS, STARTED, _standard_subject, _subject
from dpoco.learners import LEARNERS
from dpoco.learning import state as _state

NAMES = [each.name for each in LEARNERS if contract_checks(each.plays) and each.plays in STARTED]
SAVED = [name for name in VARIANTS if not name.endswith(", custom") and name[:10] != "statistics"]
ENDLESS = {"type": "LpBall", "dimension": 10**9, "p": 1.5, "radius": 2.0}
ANOTHER = {"type": "LpBall", "dimension": 7, "p": 2.0, "radius": 1.0}

# Words of the payload: the round first; where decisions are points, one after the violations;
# last the positions in the key stream of words, uniforms, Gaussians and three more laws.
DECISION, POSITIONS = 16, -48

# These draw all their noise in one order, so that the positions follow from the round.
IN_ORDER = {"TreeFrankWolfe", "PolyhedralFrankWolfe", "NoisyFTRL", "NoisyNewton", "LinUCB",
            "HighDimensionalBandit", "CoupledRegularizedLeader", "LipschitzLearner", "PrefixHedge",
            "ContinualSum"}  # fmt: skip
OWN_ORDER = ("ftrl, half-life", "ftrl, choice", "ftrl, running loss", "ftrl, choice, box",
             "linucb, free", "polyhedral, one point", "lipschitz, point")  # fmt: skip
# These may use any number of Gaussian variates for a draw, but not none.
AT_LEAST = ("comw, linear", "comw, dartboard", "comw, anchored", "comw, quadratic")
SILENT = ("tree, free", "polyhedral, free", "ftrl, squares, free", "newton, free")


def forged(name):
    subject = _standard_subject(name) if name in NAMES else _subject(*VARIANTS[name])
    learner = subject.fresh()
    subject.play(learner, 0, ROUNDS - 4)
    return learner, Forged(learner)


def fields(part, path):
    """Every field of a description that has no fields of its own, after the path to it."""
    for key, value in part.items():
        if isinstance(value, dict):
            yield from fields(value, f"{path}.{key}")
        else:
            yield f"{path}.{key}", value


PROBLEMS = {
    "domain": [{"type": "Sphere"}, ANOTHER, ENDLESS], "loss": [{"type": "Nothing"}],
    "budget": [{"epsilon": -1}], "arms": [2, 4, 2**20, -1], "dimension": [2, 2**30],
    "experts": [3, 5, 2**30, -1], "candidates": [2**30, -1], "horizon": [ROUNDS + 1],
}  # fmt: skip


# Numbers of plans that engines hold in their states.
HELD = (".scale", ".batch", ".block", ".pushes", ".rounds", ".dimension", ".experts", ".horizon",
        ".lipschitz")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_headers_that_lie_are_refused(name):
    _, state = forged(name)
    given, kind = state.header["object"]["arguments"], state.header["kind"]
    other = next(each.class_name for each in LEARNERS if each.class_name != kind)
    lies = [("kind", lie) for lie in ("Unknown", "os.system", other, None, [kind])]
    lies += [("object", lie) for lie in ({}, 3, None)]
    lies += [("object.plan", {}), ("object.plan", None), ("object.plan.version", 3)]
    lies += [("object.plan.more", 1), ("object.arguments.more", 1)]
    words = [key for key, value in given.items() if isinstance(value, str)]
    lies += [(f"object.arguments.{key}", "strange") for key in words]
    for key in PROBLEMS.keys() & given.keys():
        lies += [(f"object.arguments.{key}", lie) for lie in PROBLEMS[key]]
    for path, value in fields(state.header["object"]["plan"], "object.plan"):
        if isinstance(value, int | float) and not isinstance(value, bool):
            lies += [(path, -1 if isinstance(value, int) else "nan")]
            lies += [(path, -value)] if value else []
        elif isinstance(value, str) and not path.endswith("regret_scope"):  # the caller's own words
            lies += [(path, "strange")]
        if kind != "NoisyMax" and path.endswith(HELD):  # which holds nothing of its plan
            lies += [(path, 1000.0 * value if isinstance(value, float) else value + 1)]
    state.settings_refused(lies)
    for key in given.keys() - _state._ADDED.keys():  # which older states lack
        header = state.with_setting("seeded", True)
        del header["object"]["arguments"][key]
        state.refused(header)


@pytest.mark.parametrize("name", [*NAMES, *SAVED])
def test_payloads_that_would_reuse_noise_or_leave_the_domain_are_refused(name):
    learner, state = forged(name)
    for payload in (state.payload[:-8], state.payload + bytes(8), b""):
        state.refused(payload=payload)
    state.words_refused((0, ROUNDS + 1), (0, 2**63))  # rounds past the horizon
    point = getattr(learner, "last_decision", None)
    if isinstance(point, np.ndarray) and state.payload[DECISION:].startswith(point.tobytes()):
        state.words_refused(*((DECISION, value) for value in (math.nan, math.inf, 50.0)))
        state.words_refused((DECISION + 8 * len(point) + 8, math.nan))  # a sum of records
    if hasattr(learner, "experts"):
        state.words_refused((8, learner.experts))  # the decision
    if state.header["kind"] in IN_ORDER and name not in OWN_ORDER:
        state.words_refused((0, 3))  # a round out of step
        positions = np.frombuffer(state.payload[POSITIONS:], dtype="<u8")
        moved = POSITIONS + 8 * np.flatnonzero(positions)
        assert (len(moved) == 0) == (name in SILENT)
        state.words_refused(*((int(at), value) for at in moved for value in (0, 1, 2**63)))
    elif name in AT_LEAST:
        state.words_refused((POSITIONS + 16, 0))
