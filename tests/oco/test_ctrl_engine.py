"""The compiled coupled leader against a plain NumPy one that reads the same random numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oco.ctrl_pairs import pair, play
from tests.probes import probes

from dpoco.errors import HorizonExceeded


@pytest.mark.parametrize("where", ["space", "ball", "box", "simplex"])
@pytest.mark.parametrize("kind", ["linear", "logistic", "huber", "squared", "quadratic", "custom"])
def test_a_stream_of_each_kind_on_each_set(kind, where):
    switched = play(*pair(kind, where, rounds=12, forced_switch=0.3, seed=5))
    assert 0 < len(switched) < 11


def test_an_lp_ball():
    assert play(*pair("logistic", "lp", rounds=12, forced_switch=0.3))


@pytest.mark.parametrize("coupling", ["density_ratio", "scheduled", "maximal"])
@pytest.mark.parametrize("kind", ["linear", "logistic", "quadratic"])
def test_couplings(kind, coupling):
    forced = {"density_ratio": 0.1, "scheduled": 1.0, "maximal": 0.0}[coupling]
    where = "space" if kind == "quadratic" else "ball"
    switched = play(
        *pair(kind, where, coupling=coupling, forced_switch=forced, noise_scale=0.4, rounds=20)
    )
    assert len(switched) == 19 if coupling == "scheduled" else 0 < len(switched) < 19


@pytest.mark.parametrize("where", ["space", "ball"])
@pytest.mark.parametrize("coupling", ["density_ratio", "scheduled", "maximal"])
def test_growing_noise(coupling, where):
    forced = {"density_ratio": 0.0, "scheduled": 1.0, "maximal": 0.0}[coupling]
    engine, mirror, stream = pair(
        "quadratic",
        where,
        coupling=coupling,
        forced_switch=forced,
        noise_growth=True,
        step_size=math.inf,
        noise_scale=40.0,
    )
    np.testing.assert_array_equal(engine.decision(), mirror.domain.centre)
    assert probes.clip_width(engine, 7) == pytest.approx(_width(7, 20, 3, 40.0, 10.0))
    assert play(engine, mirror, stream)[0] == 0  # the first law is a point: always a switch


def _width(t, horizon, n, sigma, smoothness):
    """ln Phi of Agarwal et al., CTRL, Theorem 13, for the noises t - 1 and t, G = lm = 1."""
    s, log_t = t - 1, math.log(horizon)
    return (
        smoothness * n / s
        + 4 * n * log_t / s
        + n * math.log(math.sqrt(s + 1) / math.sqrt(s))
        + 1 / (2 * sigma**2 * s)
        + 2 * math.sqrt(n * log_t) / sigma * math.sqrt(s + 1) / s
    )


def test_blocks_with_a_short_last_one():
    engine, mirror, stream = pair("logistic", "ball", rounds=23, block=4, forced_switch=0.5)
    switched = play(engine, mirror, stream)
    assert switched
    assert all(t % 4 == 3 and t < 20 for t in switched)
    growing = pair("quadratic", "space", rounds=13, block=5, noise_growth=True, step_size=math.inf)
    assert play(*growing)[0] == 4


def test_the_cap_freezes_the_decision():
    engine, mirror, stream = pair("logistic", "ball", forced_switch=0.8, max_switches=3)
    switched = play(engine, mirror, stream)
    assert len(switched) == 3
    assert switched[-1] < 10
    frozen = pair("logistic", "ball", max_switches=0)
    assert play(*frozen) == []
    assert frozen[0].variates_drawn()[1] == 0


@pytest.mark.parametrize(("rounds", "block"), [(1, 1), (5, 5), (5, 9)])
def test_a_single_block_releases_the_first_draw_only(rounds, block):
    engine, mirror, stream = pair("logistic", "ball", rounds=rounds, block=block)
    assert play(engine, mirror, stream) == []
    with pytest.raises(HorizonExceeded):
        engine.observe(rounds, stream.rows[0], 0.0)
    assert engine.round == rounds


@pytest.mark.parametrize("where", ["ball", "simplex"])
def test_strong_noise_at_the_boundary(where):
    engine, mirror, stream = pair(
        "logistic", where, noise_scale=300.0, step_size=0.01, forced_switch=0.5
    )
    assert play(engine, mirror, stream, tolerance=1e-7)
    assert probes.residual(engine) <= 1e-9


def test_incremental_ratios_agree_with_densities_from_scratch():
    rounds = 1300  # past two renewals of the factor
    for where in ("space", "ball"):
        engine, _, stream = pair(
            "logistic", where, rounds=rounds, forced_switch=1e-9, noise_scale=30.0, clip_high=0.0,
            clip_low=1e-9,
        )  # fmt: skip
        worst, stays = 0.0, 0
        for t in range(rounds - 1):
            switches = engine.switches
            stream.feed(engine, t)
            if engine.switches == switches and t % 7 == 0:
                point = np.array(engine.nonprivate_point())
                scratch = probes.log_ratio_at(engine, point)
                worst = max(worst, abs(engine.nonprivate_log_ratio() - scratch))
                stays += 1
        assert stays > 100
        assert worst < 1e-10


def test_without_noise_the_leader_is_followed():
    engine, mirror, stream = pair(
        "logistic", "ball", coupling="scheduled", forced_switch=1.0, noise_scale=0.0
    )
    assert probes.grid(engine) == 0.0
    play(engine, mirror, stream)
    assert engine.variates_drawn() == [0] * 6
