"""Forward messages of the tracker on streams too long to enumerate, and at extreme rates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from . import tracker_reference as reference

Setting = reference.Setting


def by_name(settings):
    return pytest.mark.parametrize("setting", settings, ids=str)


LONG = [
    Setting(5, 60, prior="at_most", switches=4, rate=0.5),
    Setting(2, 40, prior="at_most", switches=39, rate=0.5),
    Setting(5, 30, prior="at_most", switches=7, rate=300.0),
    Setting(4, 60, prior="at_most", switches=3, rate=1e4),
    Setting(3, 200, prior="at_most", switches=3, rate=0.5),
    Setting(3, 200, prior="at_most", switches=2, rate=30.0),
    Setting(5, 200, share_rate=0.01, rate=0.5),
    Setting(5, 60, share_rate=1e-90, rate=0.5),
    Setting(5, 60, share_rate=0.01, rate=290.0),
    Setting(5, 60, share_rate=1e-90, rate=5e3),
    Setting(5, 300, share_rate=0.0, rate=5.0),
]


@by_name(LONG)
@pytest.mark.parametrize("kind", ["random", "phases"])
def test_messages_of_longer_streams(setting, kind):
    """Phases drive every weight below the range of doubles and need it again later."""
    rng = np.random.default_rng(4)
    losses = rng.random((setting.rounds, setting.experts))
    if kind == "phases":
        best = np.arange(setting.rounds) // max(setting.rounds // 6, 1) % setting.experts
        losses = np.where(np.arange(setting.experts) == best[:, None], 0.0, 1.0)
    lazy = reference.LazyLaws(setting, losses)
    paths = setting.paths()
    tolerance = 1e-12 * max(setting.rate, 1.0)  # rounding of costs near rate * rounds
    for t in range(setting.rounds):
        assert np.abs(paths.law() - lazy.laws[t]).max() <= tolerance
        if t:
            assert paths.move_chances() == pytest.approx(lazy.chances[t], rel=1e-12)
        paths.learn(losses[t])


def test_counts_that_overflow_doubles():
    setting = Setting(3, 3000, prior="at_most", switches=1500)
    paths = setting.paths()
    for t in range(1, 3001):
        if t in (2, 100, 1499, 1500, 1501, 2990, 3000):
            left = 3001 - t  # steps, counting the one into round t
            for level in (0, 1, 700, 1499, 1500):
                most = 1500 - level
                terms = [math.comb(left, k) * 2**k for k in range(min(most, left) + 1)]
                moves = sum(k * term for k, term in enumerate(terms))
                want = moves / (left * sum(terms)) if moves else 0.0
                assert paths.move_chances()[level] == pytest.approx(want, rel=1e-12)
        paths.skip()


def test_a_million_rounds_do_not_wear_the_weights_out():
    """The law after them is that of the last few: nothing drifts, vanishes or overflows."""
    rounds = 1_000_000
    setting = Setting(4, 2 * rounds, share_rate=0.01, rate=0.5)
    paths = setting.paths()
    late = setting.paths()
    row = np.array([0.3, 0.7, 0.1, 0.9])
    tail = np.random.default_rng(5).random((3000, 4))
    for _ in range(rounds):
        paths.learn(row)
    for each in tail:
        paths.learn(each)
        late.learn(each)
    assert np.abs(paths.law() - late.law()).max() < 1e-12
    static = Setting(4, 2 * rounds, share_rate=0.0, rate=1e-4)
    sums = static.paths()
    for _ in range(rounds):
        sums.learn(row)
    want = np.exp(-1e-4 * rounds * (row - row.min()))
    law = sums.law()[0]
    assert law == pytest.approx(want / want.sum(), rel=1e-9)
