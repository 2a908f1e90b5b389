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
JOINT = dataclasses.replace(
    SUM, description=None, view="others", unit="one user's record", paper_epsilon=36.5
)


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
            f"a false alarm with probability {alarm:g} raises a true one with probability at most "
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
    assert "including the party that collects the reports" in flat(LOCAL)
    assert "that a user takes part, when, and how often, is visible" in flat(LOCAL)
    assert "all other users together" in flat(JOINT)
    assert "her data and are not covered" in flat(JOINT)
    assert "any computing power" in flat(SUM)
    emptied = dataclasses.replace(SUM, change="zero_out")
    assert "nobody can tell whether one round had any data" in flat(emptied)
    assert "replaced data count as two changes" in flat(emptied)
    assert "epsilon of the published constants: 36.5" in flat(JOINT)
    assert "in print" not in flat(SUM)


def test_who_has_reviewed_the_proof(monkeypatch):
    page = "docs/privacy/continual_sum.md"
    assert facts(SUM)["review"][page] == "none"
    assert f"Reviewed outside the project - {page}: none" in flat(SUM)
    monkeypatch.setitem(REVIEWS, page, "A. Reader, 2030-01-31, 0123abc")
    assert f"- {page}: A. Reader, 2030-01-31, 0123abc - docs" in flat(SUM)


def test_no_privacy_and_no_certificate():
    none = Guarantee.none(4)
    assert flat(none).startswith("NOT PROTECTED: ")
    assert "No privacy is promised" in flat(none)
    assert "epsilon" not in flat(none)
    assert facts(none)["epsilon"] == "inf"
    assert "guessing" not in facts(none)
    seeded = dataclasses.replace(PURE, seeded=True)
    assert explain(seeded).startswith("NOT PROTECTED: the noise is seeded")
    assert explain(PURE).startswith("not verified: nothing is described")
    assert explain(SUM).startswith("protected: epsilon = ")
    point = restated(PURE, profile=None, delta=1e-9)
    assert "2: nothing known" in flat(point)
    assert not re.search(r"\b(inf|nan)\b", flat(point))


# -- the page without terms ------------------------------------------------------------------------

HEADS = ["What is protected", "For whom", "For how long", "What an attacker could still learn",
         "What the operator must do", "What is not covered", "For experts"]  # fmt: skip


def page(guarantee, **options):
    text = explain(guarantee, plain=True, **options)
    assert max(map(len, text.splitlines())) <= 88
    assert len(text.splitlines()) <= 60  # a page
    return " ".join(text.split())


@pytest.mark.parametrize("guarantee", [SUM, PURE, LOCAL, JOINT], ids=["sum", "pure", "local", "j"])
def test_the_plain_page_answers_six_questions(guarantee):
    lines = explain(guarantee, plain=True).splitlines()
    heads = [line for line in lines if not line.startswith(" ") and line != "WARNING"]
    assert heads[1:] == HEADS
    assert heads[0][:9] in ("protected", "not verif")
    text, exact = page(guarantee), power.guessing_probability(guarantee)
    (guess,) = re.findall(r"guesses right at most ([\d.]+) times in 100 after", text)
    assert 0.0 <= float(guess) / 100.0 - exact <= 0.0011  # rounded up
    (suspected,) = re.findall(r"1 % likely before becomes at most ([\d.]+) % likely", text)
    assert 0.0 <= float(suspected) / 100.0 - facts(guarantee)["odds"]["posterior"]["0.01"] <= 0.0011
    assert ("except with a chance" in text) == (guarantee.delta > 0.0)
    assert ("takes part" in text) == (guarantee.view == "server")
    assert ("own outputs" in text) == (guarantee.view == "others")
    for term in ("neighbour", "differential", "sensitivity", "mechanism described"):
        assert term not in text.split("What is protected", 1)[1].split("For experts")[0]


def test_the_plain_page_warns():
    certain = dataclasses.replace(PURE, certified=True)
    assert "WARNING" not in page(certain)
    loud = stated(horizon=7, pure=10.5)
    assert "epsilon = 10.5 is above 10" in page(loud)
    assert "above 10" not in page(stated(horizon=7, pure=9.5))
    assert SUM.delta == 1e-6
    assert "above 1 in" not in page(SUM)
    assert "above 1 in" not in page(SUM, people=10**6)
    assert "delta = 1e-06 is above 1 in 1,000,001, the number of people" in page(
        SUM, people=10**6 + 1
    )
    many = dataclasses.replace(SUM, horizon=10**7, description=None)
    assert "above 1 in 10,000,000, the number of rounds" in page(many)
    assert "This is not proved" in page(dataclasses.replace(SUM, seeded=True))
    with pytest.raises(ValueError, match="people"):
        explain(SUM, plain=True, people=0)


def test_the_plain_page_names_promises_people_and_those_who_come_back():
    declared = Guarantee.gaussian(sensitivity=1.0, noise_scale=8.0, delta=1e-6, horizon=50)
    assert page(declared).count("guarantee this yourself, since nothing enforces it: PROMISED") == 2
    assert "with ten of them the same guess may be right" in page(declared)
    person = declared.for_person(3, 2)
    assert "All that any one person contributes" in page(person)
    assert "nobody has more than 3 rounds, any two at least 2 apart" in page(person)
    assert "with ten of them" not in page(person)
    assert "was left empty" in page(dataclasses.replace(SUM, change="zero_out"))
    assert "last digits" in page(declared)
    assert page(Guarantee.none(5)).startswith("NOT PROTECTED: ")
