"""Played transcripts of the tracker have the explicit algorithm's frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpoco import _core

from . import tracker_reference as reference

Setting, STREAM = reference.Setting, reference.STREAM
AT_MOST = Setting(3, 6, prior="at_most", switches=2)
SHARE = Setting(3, 6, share_rate=0.2)


def sampled(setting, losses, runs):
    """Played paths as indices, each run under a key of its own."""
    weights = setting.experts ** np.arange(setting.rounds - 1, -1, -1)
    own, decisions = np.empty(setting.rounds), np.empty(setting.rounds, dtype=np.int64)
    counts = np.zeros(setting.experts**setting.rounds)
    for stream in range(runs):
        engine = _core.ObliviousTracker(
            {**setting.path_settings(), "low": 0.0, "high": 1.0, "key": b"\7" * 32,
             "stream": stream, "forced_switch": setting.forced, "block": setting.batch,
             "max_resamples": setting.cap}
        )  # fmt: skip
        engine.run(losses, own, decisions)
        counts[decisions @ weights] += 1
    return counts


def chi_square(counts, law):
    """Tail probability, cells with fewer than 5 expected merged."""
    expected = counts.sum() * law
    small = expected < 5.0
    seen = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    if wanted[-1] == 0.0:
        assert seen[-1] == 0.0
        seen, wanted = seen[:-1], wanted[:-1]
    return stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1)


@pytest.mark.parametrize(
    ("setting", "runs"),
    [
        (AT_MOST.but(batch=2), 200_000),
        (SHARE, 200_000),
        (AT_MOST.but(cap=1, forced=0.1), 80_000),
        (SHARE.but(share_rate=0.0), 80_000),
    ],
)
def test_sampled_transcripts(setting, runs):
    losses = np.ascontiguousarray(STREAM)
    counts = sampled(setting, losses, runs)
    assert chi_square(counts, reference.explicit_law(setting, losses)) > 1e-7
    wrong = reference.explicit_law(setting.but(rate=0.75 * setting.rate), losses)
    assert chi_square(counts, wrong) < 1e-9
