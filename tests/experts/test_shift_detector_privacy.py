"""The whole shift detector by exact enumeration: what one round can change, and planted errors."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
import scipy
from tests.descriptions import unchecked
from tests.samples import replays

import dpoco
from dpoco.accounting import shift_detector as accountant
from dpoco.experts import EpochSelector, ShiftDetector, WindowSelector
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.random import Source

from . import detector_reference as reference

PURE = dpoco.Budget(1.0, 0.0)
# Without allowances and with a low threshold alarms are common: the hardest case.
BARE = {"log_windows": 0.0, "log_selection": None}


def parameters(rounds=4, **changes):
    p = accountant.calibrate(2, horizon=rounds, budget=PURE, first=0)
    noises = {name: changes.pop(name) for name in NOISES if name in changes}
    # A plan has no negative threshold; nobody's privacy depends on it.
    make = unchecked if changes.get("threshold", 0.0) < 0.0 else dataclasses.replace
    tuning = make(p.tuning, **changes)
    return dataclasses.replace(p, mechanism=with_noises(p.mechanism, **noises), tuning=tuning)


NOISES = ("selection", "threshold_noise", "query_noise")


def with_noises(mechanism, selection=None, threshold_noise=None, query_noise=None):
    if isinstance(mechanism, Parts):
        own = (
            with_noises(each, selection, threshold_noise, query_noise) for each in mechanism.parts
        )
        return dataclasses.replace(mechanism, parts=tuple(own))
    scales = {"scale": selection}
    if isinstance(mechanism, ThresholdTests):
        scales = {"threshold_scale": threshold_noise, "query_scale": query_noise}
    return dataclasses.replace(mechanism, **{k: v for k, v in scales.items() if v is not None})


def epsilon(p):
    return accountant.guarantee(p).epsilon


SPLITS = [(4.0, 4.0, 4.0), (2.5, 20.0, 20.0), (40.0, 2.2, 40.0), (40.0, 40.0, 2.2)]


def with_scales(split, rounds=4, **changes):
    selection, threshold, query = split
    return parameters(
        rounds,
        selection=selection,
        threshold_noise=threshold,
        query_noise=query,
        **{**BARE, **changes},
    )


@pytest.mark.parametrize("rounds", [4, 5])
def test_calibrated_parameters_keep_to_the_budget_on_all_small_streams(rounds):
    p = parameters(rounds)
    assert 0.4 < reference.worst_log_ratio(p, rounds) <= 1.0
    bare = parameters(rounds, threshold=1.0, **BARE)
    assert 0.6 < reference.worst_log_ratio(bare, rounds) <= 1.0


@pytest.mark.parametrize("threshold", [-3.0, 0.0, 3.0])
@pytest.mark.parametrize("split", SPLITS)
def test_every_split_keeps_to_its_epsilon(split, threshold):
    p = with_scales(split, threshold=threshold)
    total = 2.0 / split[0] + 2.0 / split[1] + 2.0 / split[2]
    assert math.isclose(epsilon(p), total, rel_tol=1e-12)
    assert 0.5 * total < reference.worst_log_ratio(p) <= total


@pytest.mark.parametrize("windows", ["dyadic", "naive"])
def test_windows_have_no_influence(windows):
    p = with_scales(SPLITS[0], threshold=1.0, windows=windows)
    assert reference.worst_log_ratio(p) <= epsilon(p)


def test_a_restart_in_the_round_of_the_alarm_is_caught():
    """It feeds that round into two instances."""
    p = with_scales((40.0, 40.0, 2.2), threshold=3.0)
    assert reference.worst_log_ratio(p, restart_at_the_alarm=True) > 1.3 * epsilon(p)


def test_a_selection_with_half_the_noise_is_caught():
    p = with_scales((1.25, 20.0, 20.0), threshold=3.0)
    assert reference.worst_log_ratio(p) > 1.5 * epsilon(with_scales((2.5, 20.0, 20.0)))


def transcripts(p, losses, runs):
    seen = Counter()
    new = ShiftDetector(2, horizon=p.tuning.horizon, budget=None, plan=p, source=Source.seeded(0))
    for learner in replays(new, runs):
        played = learner.run(losses).decisions
        seen[tuple(played.tolist()), tuple(learner.alarms.tolist())] += 1
    return seen


@pytest.mark.parametrize("level", [0.02, None])
def test_the_compiled_detector_has_the_enumerated_law(level):
    losses = np.array([[1.0, 0.0], [0.3, 1.0], [0.0, 0.6], [1.0, 0.0], [0.2, 0.1]])
    p = with_scales((1.0, 1.0, 0.7), rounds=5, threshold=1.0, log_windows=0.02, log_selection=level)
    runs = 12_000
    seen = transcripts(p, losses, runs)

    def pvalue(law):
        assert abs(sum(law.values()) - 1.0) < 1e-9
        if not set(seen) <= {key for key, chance in law.items() if chance > 0.0}:
            return 0.0
        big = [key for key, chance in law.items() if runs * chance >= 5.0]
        counts = np.array([seen[key] for key in big])
        wants = np.array([runs * law[key] for key in big])
        rest = max(runs - wants.sum(), 1e-9)
        return scipy.stats.chisquare([*counts, runs - counts.sum()], [*wants, rest]).pvalue

    assert len({alarms for _, alarms in seen}) >= 6
    assert pvalue(reference.transcript_law(losses, p)) > 1e-6
    assert pvalue(reference.transcript_law(losses, p, restart_at_the_alarm=True)) < 1e-6
    for name, scale in zip(NOISES, (1.0, 1.0, 0.7), strict=True):
        wrong = dataclasses.replace(p, mechanism=with_noises(p.mechanism, **{name: 0.8 * scale}))
        assert pvalue(reference.transcript_law(losses, wrong)) < 1e-6


@pytest.mark.parametrize(
    ("noise", "window"),
    [("exponential", None), ("gumbel", None), ("laplace", None), ("exponential", 1), ("gumbel", 1)],
)
def test_the_compiled_selectors_have_the_law_of_noisy_argmins(noise, window):
    """Rounds 2 and 3 play a selection from round 1, rounds 4 and 5 one from rounds 2 and 3.

    With windows of one round every round plays a selection from the one before.
    """
    losses = np.array([[1.0, 0.0], [0.0, 0.7], [0.2, 1.0], [0.5, 0.5], [0.0, 0.0]])
    options = {"horizon": 5, "budget": dpoco.Budget(2.0, 0.0), "selection": noise, "first": 1}
    kind = EpochSelector if window is None else functools.partial(WindowSelector, window=window)
    if window is None:
        pieces, plays = [(0, 1), (1, 3)], (2, 2)
    else:
        pieces, plays = [(t, t + 1) for t in range(4)], (1, 1, 1, 1)
    seen = Counter()
    for learner in replays(kind(2, **options, source=Source.seeded(0)), 6_000):
        seen[tuple(learner.run(losses).decisions.tolist())] += 1

    def pvalue(scale):
        sums = [losses[a:b].sum(axis=0).tolist() for a, b in pieces]
        laws = [reference.selection_law(each, noise, scale) for each in sums]
        counts, wants = [], []
        for chosen in itertools.product((0, 1), repeat=len(pieces)):
            counts.append(seen[(1, *np.repeat(chosen, plays).tolist())])
            wants.append(math.prod(law[i] for law, i in zip(laws, chosen, strict=True)))
        assert sum(counts) == 6_000
        return scipy.stats.chisquare(counts, 6_000 * np.array(wants)).pvalue

    assert pvalue(1.0) > 1e-6
    assert pvalue(0.85) < 1e-6


def test_draws_depend_on_the_published_only():
    """One for every instance and every test, two for every selection: alarms tell their number."""
    rng = np.random.default_rng(0)
    alarm_counts = set()
    for seed in range(60):
        rounds = int(rng.integers(4, 30))
        p = with_scales((1.0, 1.0, 0.7), rounds=rounds, threshold=1.0)
        source = Source.seeded(seed)
        learner = ShiftDetector(2, horizon=rounds, budget=None, plan=p, source=source)
        learner.run(rng.integers(0, 2, size=(rounds, 2)).astype(float))
        ends = [*(learner.alarms + 1).tolist(), rounds]
        lengths = np.diff([0, *ends]).tolist()
        selections = sum(length.bit_length() - 1 for length in lengths)
        drawn = learner._engine.variates_drawn()
        exponentials = len(lengths) + (rounds - 1) + 2 * selections
        assert drawn == [0, 0, 0, exponentials, 0, 0]
        alarm_counts.add(len(lengths))
    assert len(alarm_counts) > 5
