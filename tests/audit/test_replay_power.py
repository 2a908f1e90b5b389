"""What a replay audit says of its own power: bounds that were not reached, and roundings."""

from __future__ import annotations

import math

import pytest

from dpoco.audit.learner import replay_power
from dpoco.audit.replay import ReplayReport


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
