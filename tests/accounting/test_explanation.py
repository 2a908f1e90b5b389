"""Explanations: every number in the text is the curve's, and nothing is said that does not hold."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest

from dpoco.accounting import Budget, Guarantee, sum_release
from dpoco.accounting import attack_power as power
from dpoco.accounting.explanation import REVIEWS, explain, facts
from dpoco.accounting.local_reports import local_guarantee
from dpoco.local import BitRandomizer
from dpoco.privacy.mechanisms.local_report import LocalReport

from .by_hand import restated, stated

BUDGET = Budget(1.0, 1e-6)
SUM = sum_release.guarantee(
    sum_release.calibrate(20, horizon=1000, budget=BUDGET, bound=2.0), budget=BUDGET
)
PURE = stated(horizon=7, pure=0.5)
LOCAL = local_guarantee(LocalReport(1.0, 2, (BitRandomizer(1.0).law,)), released="a bit")
JOINT = dataclasses.replace(SUM, view="others", unit="one user's record", paper_epsilon=36.5)


def flat(guarantee):
    return " ".join(explain(guarantee).split())


@pytest.mark.parametrize("guarantee", [SUM, PURE, LOCAL, JOINT], ids=["sum", "pure", "local", "j"])
def test_every_number_is_the_curves(guarantee):
    text, record = flat(guarantee), facts(guarantee)
    assert f"epsilon = {guarantee.epsilon:.6g} and delta = {guarantee.delta:.6g}" in text
    for prior in (0.5, 0.1, 0.01):
        p = min(prior, 1 - prior)
        exact = min(1.0, 1 - p + p * guarantee.delta_at(math.log((1 - p) / p)))
        assert record["guessing"][str(prior)] == pytest.approx(exact, rel=1e-12)
        assert (
            f"probability {prior:g} beforehand guesses right with probability at most "
            f"{exact:.4g} afterwards ({max(prior, 1 - prior):g} without" in text
        )
    factor = math.exp(guarantee.epsilon) * (2.0 if guarantee.delta > 0.0 else 1.0)
    assert f"rise by a factor of at most {factor:.4g}" in text
    if guarantee.delta > 0.0:
        assert f"except with probability {2 * guarantee.delta:.3g} (2 delta)" in text
    else:
        assert "(e^epsilon), whatever is released" in text
    for prior in (0.5, 0.1, 0.01):
        assert f"{prior:g} -> {prior * factor / (1 - prior + prior * factor):.4g}" in text
    for alarm in (0.05, 0.01, 0.001):
        value = power.test_power(guarantee, alarm)
        assert (
            f"wrongly with probability {alarm:g} accuses rightly with probability at most "
            f"{value:.4g}" in text
        )
    for units in (2, 5, 10):
        assert f"{units}: {power.group_epsilon(guarantee, units):.4g}" in text
    for condition in guarantee.conditions:
        assert " ".join(condition.split()) in text
    assert guarantee.reference in text
    assert guarantee.mechanism in text
    assert guarantee.unit in text
    assert max(len(line) for line in explain(guarantee).splitlines()) <= 92
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_a_wrong_curve_would_be_seen():
    weaker = restated(SUM, mu=1.01 * SUM.mu)
    assert facts(weaker)["guessing"] != facts(SUM)["guessing"]
    assert facts(weaker)["power"] != facts(SUM)["power"]


def test_what_each_relation_says():
    assert "the party that collects the reports included" in flat(LOCAL)
    assert "that a user takes part, when, and how often, is visible" in flat(LOCAL)
    assert "all other users together" in flat(JOINT)
    assert "her data and are not covered" in flat(JOINT)
    assert "any computing power" in flat(SUM)
    emptied = dataclasses.replace(SUM, change="zero_out")
    assert "whether one round had any data cannot be told" in flat(emptied)
    assert "replaced data count as two changes" in flat(emptied)
    assert "By the constants in print" in flat(JOINT)
    assert "epsilon = 36.5" in flat(JOINT)
    assert "in print" not in flat(SUM)


def test_who_has_reviewed_the_proof(monkeypatch):
    page = "docs/privacy/continual_sum.md"
    assert facts(SUM)["review"][page] == "none"
    assert f"Reviewed outside the project - {page}: none" in flat(SUM)
    monkeypatch.setitem(REVIEWS, page, "A. Reader, 2030-01-31, 0123abc")
    assert f"- {page}: A. Reader, 2030-01-31, 0123abc - docs" in flat(SUM)


def test_no_privacy_and_no_certificate():
    none = Guarantee.none(4)
    assert flat(none).startswith("No privacy is promised")
    assert "epsilon" not in flat(none)
    assert facts(none)["epsilon"] == "inf"
    assert "guessing" not in facts(none)
    seeded = dataclasses.replace(PURE, certified=False)
    assert explain(seeded).startswith("NOT CERTIFIED")
    assert not explain(PURE).startswith("NOT")
    point = restated(PURE, profile=None, delta=1e-9)
    assert "2: nothing known" in flat(point)
    assert not re.search(r"\b(inf|nan)\b", flat(point))
