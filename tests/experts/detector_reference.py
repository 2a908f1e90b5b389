"""The shift detector from its definition: the exact law of all it publishes, on tiny streams."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from dpoco.accounting.epoch_selector import find_noise
from dpoco.accounting.shift_detector import bias, find_tests


def statistic(history, offsets, slopes):
    """Q of one instance: `history` lists (own expert, losses, allowance), oldest first.

    Every window that ends now, by its definition; `slopes` None stands for aligned blocks of 2^k
    rounds, allowed offsets[k].
    """
    n = len(history)
    worst = -math.inf
    for start in range(n):
        length = n - start
        if slopes is None:
            k = length.bit_length() - 1
            if length != 2**k or n % length or k >= len(offsets):
                continue
            allowed = offsets[k]
        else:
            allowed = min(a + s * length for a, s in zip(offsets, slopes, strict=True))
        allowed += sum(g for _, _, g in history[start:])
        lost = sum(losses[own] - np.asarray(losses) for own, losses, _ in history[start:])
        worst = max(worst, float(np.max(lost)) - allowed)
    return worst


def selection_law(sums, noise, scale):
    """Law of the noisy argmin of two sums."""
    gap = abs(sums[1] - sums[0]) / scale
    worse = {
        "exponential": 0.5 * math.exp(-gap),
        "laplace": math.exp(-gap) * (0.5 + 0.25 * gap),
        "gumbel": 1.0 / (1.0 + math.exp(gap)),
    }[noise]
    return (1.0 - worse, worse) if sums[0] <= sums[1] else (worse, 1.0 - worse)


@cache
def detector_law(silent, loud, b1, b2):
    """P(no alarm for the excesses `silent`, then one for `loud`; None: nothing follows), exactly.

    One-sided exponential noises: given the threshold's noise r, a query with excess x is silent
    with probability 1 - exp(-(r - x) / b2) if r >= x, else 0.
    """
    start = max([0.0, *silent])

    def tail(rate, frm, to=math.inf):  # integral of exp(-rate r) over [frm, to]
        return (math.exp(-rate * frm) - (0.0 if to == math.inf else math.exp(-rate * to))) / rate

    total = 0.0
    for chosen in itertools.product((0, 1), repeat=len(silent)):
        count = sum(chosen)
        factor = (-1.0) ** count * math.exp(
            sum(x for x, c in zip(silent, chosen, strict=True) if c) / b2
        )
        rate = 1.0 / b1 + count / b2
        if loud is None:
            total += factor * tail(rate, start) / b1
            continue
        kink = max(start, loud)
        total += factor * (tail(rate, start, kink) if kink > start else 0.0) / b1
        total += factor * math.exp(loud / b2) * tail(rate + 1.0 / b2, kink) / b1
    return total


def transcript_law(losses, p, *, restart_at_the_alarm=False):
    """P of every (decisions, alarms) for two experts, the first decision being expert 0."""
    losses = np.asarray(losses, dtype=float)
    rounds = len(losses)
    tuning, tests, (law_of_scores, scale) = p.tuning, find_tests(p), find_noise(p.mechanism)
    offsets, slopes = tuning.window_lines()
    law = {}

    def fresh(t, own):
        """An instance whose first round is t; its bias allowance follows from its local time."""
        del t, own
        return {"history": [], "sums": np.zeros(2), "excesses": []}

    def consume(instance, t, own):
        """Learn round t and return (statistic, sums to select from or None, instance)."""
        local = len(instance["history"]) + 1
        allowance = bias(p, (1 << (local.bit_length() - 1)) // 2)
        history = [*instance["history"], (own, losses[t], allowance)]
        sums = instance["sums"] + losses[t]
        due = (local + 1) & local == 0
        after = {
            "history": history,
            "sums": np.zeros(2) if due else sums,
            "excesses": instance["excesses"],
        }
        q = statistic(history, offsets, slopes if slopes else None)
        return q - tuning.threshold * tuning.threshold_scale, sums if due else None, after

    def branch(weight, decisions, alarms, t, own, instance, sums):
        """Go on with round t + 1, selecting first if `sums` says so."""
        if sums is None:
            walk(weight, (*decisions, own), alarms, t + 1, instance)
            return
        for j, chance in enumerate(selection_law(sums, law_of_scores, scale)):
            walk(weight * chance, (*decisions, j), alarms, t + 1, instance)

    def walk(weight, decisions, alarms, t, instance):
        played = decisions[-1]
        b1, b2 = tests.threshold_scale, tests.query_scale
        if t == rounds - 1:
            if tests is not None:
                weight *= detector_law(tuple(instance["excesses"]), None, b1, b2)
            key = (decisions, alarms)
            law[key] = law.get(key, 0.0) + weight
            return
        excess, sums, after = consume(instance, t, played)
        if tests is not None:
            seen = tuple(instance["excesses"])
            loud = weight * detector_law(seen, excess, b1, b2)
            following, first = fresh(t + 1, played), None
            if restart_at_the_alarm:  # the round is learned again, by the new instance
                _, first, following = consume(following, t, played)
            branch(loud, decisions, (*alarms, t), t, played, following, first)
            after["excesses"] = [*seen, excess]
        branch(weight, decisions, alarms, t, played, after, sums)

    walk(1.0, (0,), (), 0, fresh(0, 0))
    return law


def zero_one_streams(rounds):
    """All streams of two experts with losses 0 and 1; the last round, never used, is zero."""
    for bits in itertools.product((0.0, 1.0), repeat=2 * (rounds - 1)):
        yield np.array([*bits, 0.0, 0.0]).reshape(rounds, 2)


def worst_log_ratio(p, rounds=4, **options):
    """The largest log-ratio of a transcript's probability over all neighbouring 0/1 streams."""
    laws = {rows.tobytes(): transcript_law(rows, p, **options) for rows in zero_one_streams(rounds)}
    worst = 0.0
    for rows in zero_one_streams(rounds):
        law = laws[rows.tobytes()]
        for t in range(rounds - 1):
            for new in itertools.product((0.0, 1.0), repeat=2):
                other = rows.copy()
                other[t] = new
                neighbour = laws[other.tobytes()]
                worst = max(worst, *(abs(math.log(law[k] / neighbour[k])) for k in law))
    return worst
