"""Replay of every learner and mechanism: what it refuses, and what it says of its own power."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.audit.faults import planted
from tests.audit.replay_cases import CASES, case, find
from tests.descriptions import unchecked

import dpoco
from dpoco.audit import ReplayReport, replay_audit
from dpoco.audit._family import calibrate_once
from dpoco.audit.learner import replay_power
from dpoco.audit.report import bound_text
from dpoco.bandits import HighDimensionalBandit
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.mechanisms import NoisyMax
from dpoco.oco import ContinuousMultiplicativeWeights, NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

COMW = ContinuousMultiplicativeWeights
# Their bounds are for points at opposite ends of the domain, which are hardly ever drawn.
WEAK = {find(COMW, cap=8), find(COMW, block=2, dimension=3)}
# Draws without coins, of losses whose sums need no bound.
UNBOUNDED = {find(COMW, keep="scheduled", dimension=d) for d in (1, 18)}


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_reached_and_kept_and_smaller_ones_are_not(name):
    make, stream, replacements = case(name)
    plays = []

    def counted(source):
        plays.append(make(source))
        return plays[-1]

    report = replay_audit(counted, stream, replacements)
    assert not report.violated, str(report)
    assert report.passed == (name not in WEAK | UNBOUNDED), str(report)
    assert report.pairs == len(replacements)
    assert len(plays) == 2 + len(replacements)  # the stream twice, every neighbour once
    assert "no violation" in str(report) or name in UNBOUNDED
    if name not in UNBOUNDED:
        assert report.measured > (0.1 if name in WEAK else 0.25) * report.declared

    def understated(learner, _):
        own, small = learner._mechanism, 0.99 * report.changes["the sum"][0]
        if isinstance(learner, PolyhedralFrankWolfe):
            part = {"scores": unchecked(own.scores, leaf=0.5 * small / own.scores.slope)}
        else:
            part = {"summand": unchecked(own.summand, movement=lambda *_: small)}
        learner._mechanism = unchecked(own, **part)

    def quiet(learner, _):
        learner._mechanism = unchecked(learner._mechanism, scale=0.1 * learner._mechanism.scale)

    # Not of high-dimensional bandits, whose descriptions have parts.
    faults = {"the sum": (understated, "moved the sum"), "mu of the releases": (quiet, "mu of the")}
    for changed, (fault, finding) in faults.items():
        if changed in report.changes and not isinstance(plays[0], HighDimensionalBandit):
            assert finding in str(replay_audit(planted(make, fault), stream, replacements))


# ---- what is refused -----------------------------------------------------------------------------


def test_bad_input_is_refused():
    make, stream, _ = case(find(PrefixHedge))
    one = [(3, 1.0 - stream[3])]
    with pytest.raises(ValueError, match="no neighbour: round 99"):
        replay_audit(make, stream, [(99, stream[3])])
    with pytest.raises(ValueError, match="as it is"):
        replay_audit(make, stream, [(3, stream[3])])
    with pytest.raises(ValueError, match="at least one"):
        replay_audit(make, stream, [])
    with pytest.raises(TypeError, match="tuple"):
        replay_audit(make, stream, [3])
    with pytest.raises(TypeError, match="must be an int"):
        replay_audit(make, stream, [(3.0, stream[3])])
    with pytest.raises(ValueError, match="1 parts of a record"):
        replay_audit(make, stream, [(3, 1.0 - stream[3], 0.5)])
    with pytest.raises(ValueError, match="over the learner"):
        replay_audit(make, np.vstack([stream, stream]), one)
    with pytest.raises(ValueError, match="one array of losses"):
        replay_audit(make, (stream, stream), one)
    with pytest.raises(TypeError, match="no audit of a object"):
        replay_audit(lambda source: object(), stream, one)
    seeds = iter(range(9))
    with pytest.raises(ValueError, match="repeat themselves"):
        replay_audit(lambda source: make(Source.seeded(next(seeds))), stream, one)


def test_streams_that_are_no_neighbours_are_refused():
    make, stream, _ = case(find(TreeFrankWolfe, relation="zero_out"))
    with pytest.raises(ValueError, match="zero_out"):
        replay_audit(make, stream, [(3, [0.5, 0.5, 0.5])])
    make, stream, _ = case(find(NoisyMax))
    with pytest.raises(ValueError, match="promise"):
        replay_audit(make, stream, [(3, stream[3] + 3.0)])
    make, stream, _ = case(find(NoisyMax, one_directional=True))
    with pytest.raises(ValueError, match="both directions"):
        replay_audit(make, stream, [(3, stream[3] + 0.5 * (-1.0) ** np.arange(18))])
    (_, (rows, _), _), ball = case(find(NoisyFTRL)), dpoco.domains.LpBall(3)
    custom = dpoco.losses.CustomLoss(lipschitz=1.0, smoothness=1.0)
    make = calibrate_once(NoisyFTRL, ball, custom, budget=dpoco.Budget(1.0, 1e-4), horizon=11)
    with pytest.raises(TypeError, match="custom loss"):
        replay_audit(make, rows, [(3, -rows[3])])


def test_reports_say_what_was_not_tested():
    make, stream, _ = case(find(PrefixHedge))
    report = replay_audit(make, stream, [(len(stream) - 1, 1.0 - stream[-1])])
    assert not report.violated
    assert not report.powerful
    assert not report.passed  # nothing could have been found
    assert report.detectable == np.inf
    assert "no power" in str(report)
    assert "not tested" in str(report)
    near = stream[3] + 0.01 * np.where(np.arange(stream.shape[1]) % 2, 1.0, -1.0)
    weak = replay_audit(make, stream, [(3, near)])
    assert not weak.violated
    assert not weak.passed
    assert weak.detectable > 4.0
    strong = replay_audit(make, stream, [(3, 1.0 - np.round(stream[3]))])
    assert strong.passed
    assert strong.detectable < 3.0
    assert f"detected: a factor {bound_text(strong.detectable, up=True)}" in str(strong)


# ---- power: bounds that were not reached, and roundings ------------------------------------------


def report(**changes):
    return ReplayReport(1.0, 0.0, 1, (), changes)


def test_roundings_near_their_allowance_are_no_power():
    """What must not move is allowed a rounding: coming near that tests no sensitivity."""
    for changes in (
        {"releases of other batches": (0.9e-12, 1e-12)},
        {"the sum": (0.0, 4.0), "sums of others": (3e-9, 4e-9)},
        {"the factor": (0.0, 0.5), "later factors": (0.9e-9, 1e-9)},
        {"the model": (0.0, 0.0)},
        {"the sum": (1e-9, 2e-9), "the odds": (0.0, math.inf)},
        {},
    ):
        bounded = any(declared > 1e-8 for _, declared in changes.values())
        found = report(**changes)
        assert math.isinf(found.detectable)
        assert not found.powerful
        assert not found.passed
        assert "no power" in str(found)
        assert found.verdict == ("no power" if bounded else "not applicable")
        why = "no replaced record reached" if bounded else "no bound on what a record moves"
        assert why in replay_power(found)


def test_bounds_of_every_size_are_power_when_reached():
    for declared in (1e-6, 1e-3, 1.0, 1e9):
        found = report(reached=(0.5 * declared, declared), other=(0.0, declared))
        assert found.detectable == pytest.approx(2.0)
        assert found.passed
        assert "moves reached by more than 2 times" in replay_power(found)


def test_a_bound_that_nothing_moved_is_said_to_be_untested():
    text = str(report(sum=(1.0, 1.0), coin=(0.0, 2.0), still=(0.0, 0.0)))
    (line,) = (line for line in text.splitlines() if "coin" in line)
    assert line.endswith("nothing moved it: this bound was not tested")
    assert text.count("not tested") == 1
