"""Exactness of deferred decisions: transcripts have the explicit law, also when played."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from . import tracker_reference as reference

Setting, STREAM = reference.Setting, reference.STREAM

AT_MOST = Setting(3, 6, prior="at_most", switches=2)
SHARE = Setting(3, 6, share_rate=0.2)
SMALL = [
    AT_MOST,
    SHARE,
    Setting(2, 7, prior="at_most", switches=3, rate=0.7, forced=0.1),
    Setting(2, 7, share_rate=0.3, rate=2.0, forced=0.1),
    Setting(4, 5, prior="at_most", switches=1, rate=3.0, forced=0.5),
    Setting(4, 5, share_rate=0.1, rate=0.3, forced=0.5),
]
# Edges of the parameters: static, no memory, every sequence, no forced draws, all forced.
EDGES = [
    Setting(3, 6, share_rate=0.0),
    Setting(3, 6, prior="at_most", switches=0),
    Setting(3, 6, share_rate=2.0 / 3.0),
    Setting(2, 6, share_rate=0.5),
    Setting(3, 6, share_rate=1e-12),
    Setting(3, 5, prior="at_most", switches=4),
    Setting(3, 5, prior="at_most", switches=99),
    Setting(3, 6, share_rate=0.2, forced=0.0),
    Setting(3, 6, share_rate=0.2, forced=1.0),
    Setting(3, 6, prior="at_most", switches=2, forced=1.0),
    Setting(3, 6, prior="at_most", switches=2, rate=40.0),
    Setting(3, 6, share_rate=0.2, rate=40.0),
]


def losses_of(setting, seed=0):
    return np.random.default_rng(seed).random((setting.rounds, setting.experts))


def compiled_law(setting, losses):
    paths, _, chances = reference.compiled_extended_law(setting, losses)
    return reference.path_law(setting, paths, chances)


def by_name(settings):
    return pytest.mark.parametrize("setting", settings, ids=str)


# ---- all transcripts ----------------------------------------------------------------------------


@by_name([s.but(batch=b) for s in SMALL for b in (1, 2, 3)])
def test_transcripts_have_the_law_of_the_explicit_algorithm(setting):
    losses = losses_of(setting)
    want = reference.explicit_law(setting, losses)
    got = compiled_law(setting, losses)
    assert abs(want.sum() - 1.0) < 1e-12
    assert np.abs(got - want).max() <= 1e-13
    # One that must fail: another rate.
    wrong = compiled_law(setting.but(rate=1.1 * setting.rate), losses)
    assert np.abs(wrong - want).max() > 1e-5


@by_name([s.but(batch=b) for s in EDGES for b in (1, 2)])
def test_edges_of_the_parameters(setting):
    losses = losses_of(setting, 1)
    want = reference.explicit_law(setting, losses)
    got = compiled_law(setting, losses)
    assert np.abs(got - want).max() <= 1e-12


@by_name(
    [s.but(batch=b, cap=cap) for s in SMALL[:2] for b in (1, 2) for cap in (0, 1, 3)]
    + [SHARE.but(forced=1.0, cap=2), AT_MOST.but(forced=1.0, cap=2)]
)
def test_a_cap_ends_the_coins(setting):
    losses = losses_of(setting, 2)
    want = reference.explicit_law(setting, losses)
    assert np.abs(compiled_law(setting, losses) - want).max() <= 1e-13
    if setting.cap < 3:
        free = reference.explicit_law(setting.but(cap=None), losses)
        assert np.abs(want - free).max() > 1e-4


@pytest.mark.parametrize("batch", [6, 7, 100])
def test_a_single_batch_follows_the_prior(batch):
    for setting in (AT_MOST.but(batch=batch), SHARE.but(batch=batch)):
        every, prior = reference.sequences(setting)
        want = reference.path_law(setting, every, prior)
        assert np.abs(compiled_law(setting, losses_of(setting)) - want).max() <= 1e-15


@by_name([s.but(batch=2) for s in (AT_MOST, SHARE)])
def test_flags_have_the_lazy_algorithms_law(setting):
    losses = losses_of(setting, 3)
    paths, flags, got = reference.compiled_extended_law(setting, losses)
    want_paths, want_flags, want = reference.lazy_extended_law(setting, losses)
    assert np.array_equal(paths, want_paths)
    assert np.array_equal(flags, want_flags)
    assert np.abs(got - want).max() <= 1e-14


# ---- tabulated values ---------------------------------------------------------------------------


def probability(setting, path):
    law = compiled_law(setting, STREAM)
    return law[reference.path_law(setting, np.array([path]), [1.0]) > 0.0].item()


@pytest.mark.parametrize(
    ("setting", "path", "want"),
    [
        (AT_MOST, (0, 0, 0, 0, 0, 0), 0.00618483023746),
        (AT_MOST, (0, 1, 2, 0, 2, 1), 4.65012345722e-05),
        (AT_MOST, (2, 2, 1, 1, 0, 0), 0.00331435197098),
        (AT_MOST.but(batch=2), (0, 0, 0, 0, 0, 0), 0.0127432189913),
        (SHARE.but(batch=2), (0, 0, 0, 0, 0, 0), 0.0438455416065),
        (SHARE.but(batch=2), (0, 1, 2, 0, 2, 1), 8.53457776299e-06),
    ],
)
def test_tabulated_transcripts(setting, path, want):
    assert probability(setting, path) == pytest.approx(want, rel=1e-11)


@pytest.mark.parametrize(
    ("setting", "want"),
    [
        (AT_MOST, [1 / 3, 0.414814301673, 0.268875423408, 0.280598208143, 0.449030811722,
                   0.302106228704]),
        (SHARE, [1 / 3, 0.454536273739, 0.282039789602, 0.259454141685, 0.441460366644,
                 0.270472141470]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("forced", [0.0, 0.25, 1.0])
def test_marginals_are_those_of_hedge_whatever_the_coin(setting, want, forced):
    setting = setting.but(forced=forced)
    paths, _, chances = reference.compiled_extended_law(setting, STREAM)
    assert [chances[column == 0].sum() for column in paths.T] == pytest.approx(want, abs=1e-12)
    laws = reference.CompiledLaws(setting, STREAM).laws
    assert [law.sum(axis=0)[0] for law in laws[1:]] == pytest.approx(want[1:], abs=1e-12)


def test_completions():
    assert reference.completions(AT_MOST, 5) == [51, 11, 1]
    assert reference.completions(AT_MOST, 0) == [1, 1, 1]
    assert len(reference.sequences(AT_MOST)[0]) == 153


def sampled(setting, losses, runs):
    """Played paths as indices, each run under a key of its own."""
    weights = setting.experts ** np.arange(setting.rounds - 1, -1, -1)
    own, decisions = np.empty(setting.rounds), np.empty(setting.rounds, dtype=np.int64)
    counts = np.zeros(setting.experts**setting.rounds)
    for stream in range(runs):
        engine = setting.engine_of({"key": b"\7" * 32, "stream": stream})
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
    return scipy.stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1)


@pytest.mark.parametrize(
    ("setting", "runs"),
    [
        (AT_MOST.but(batch=2), 40_000),
        (SHARE, 40_000),
        (AT_MOST.but(cap=1, forced=0.1), 30_000),
        (SHARE.but(share_rate=0.0), 30_000),
    ],
)
def test_sampled_transcripts(setting, runs):
    losses = np.ascontiguousarray(STREAM)
    counts = sampled(setting, losses, runs)
    assert chi_square(counts, reference.explicit_law(setting, losses)) > 1e-7
    wrong = reference.explicit_law(setting.but(rate=0.75 * setting.rate), losses)
    assert chi_square(counts, wrong) < 1e-9
