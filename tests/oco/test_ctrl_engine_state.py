"""State, order and bad input of the compiled coupled leader."""

from __future__ import annotations

import math

import pytest
from tests.oco.ctrl_pairs import pair, play


@pytest.mark.parametrize(
    "changes",
    [
        {"step_size": 0.0},
        {"noise_scale": 0.0},
        {"noise_scale": math.nan},
        {"barrier_weight": 0.0},
        {"clip_high": -0.1},
        {"coupling": "maximal"},
        {"coupling": "maximal", "forced_switch": 0.0, "block": 2},
        {"coupling": "dartboard"},
        {"block": 0},
    ],
)
def test_settings_that_contradict_each_other(changes):
    with pytest.raises(ValueError, match=r"\w"):
        pair("logistic", "ball", **changes)


def test_without_noise_the_leader_is_followed():
    engine, mirror, stream = pair(
        "logistic", "ball", coupling="scheduled", forced_switch=1.0, noise_scale=0.0
    )
    assert engine.grid == 0.0
    play(engine, mirror, stream)
    assert engine.variates_drawn() == [0] * 6
