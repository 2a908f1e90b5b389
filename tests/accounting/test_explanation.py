"""Explanations: every number in the text is the curve's, and nothing is said that does not hold."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest

import dpoco
from dpoco.accounting import Budget, Guarantee, sum_release
from dpoco.accounting import attack_power as power
from dpoco.accounting.explanation import REVIEWS, explain, facts
from dpoco.accounting.statement import local_guarantee
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


def assert_rounded_up(exact, text, before, after="", digits=4):
    """The text is at most a unit of its last digit above the bound, and never below."""
    (said,) = re.findall(re.escape(before) + r"(\d[\d.e+-]*\d|\d)" + re.escape(after), text)
    assert exact * (1.0 - 1e-15) <= float(said) <= exact * (1.0 + 10.0 ** (1 - digits))


@pytest.mark.parametrize("guarantee", [SUM, PURE, LOCAL, JOINT], ids=["sum", "pure", "local", "j"])
def test_every_number_is_the_curves(guarantee):
    text, record = flat(guarantee), facts(guarantee)
    assert f"epsilon = {guarantee.epsilon:.6g}, delta = {guarantee.delta:.6g}" in text
    factor = math.exp(guarantee.epsilon) * (2.0 if guarantee.delta > 0.0 else 1.0)
    assert record["odds"]["factor"] == factor
    assert record["odds"]["exceeded"] == 2.0 * guarantee.delta
    for prior in (0.5, 0.1, 0.01):
        p = min(prior, 1 - prior)
        exact = min(1.0, 1 - p + p * guarantee.delta_at(math.log((1 - p) / p)))
        assert record["guessing"][str(prior)] == pytest.approx(exact, rel=1e-12)
        after = prior * factor / (1 - prior + prior * factor)
        assert record["odds"]["posterior"][str(prior)] == pytest.approx(after, rel=1e-12)
    for alarm in (0.05, 0.01, 0.001):
        assert record["power"][str(alarm)] == power.test_power(guarantee, alarm)
    for units in (2, 5, 10):
        assert record["groups"][str(units)] == power.group_epsilon(guarantee, units)
    assert guarantee.reference in text
    assert guarantee.mechanism in text
    assert guarantee.unit in text
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_odds_without_a_double_are_not_called_bounded():
    """A factor cut off at e^700 was no bound on odds that rise by e^800."""
    loud = stated(horizon=7, pure=800.0)
    assert facts(loud)["odds"]["factor"] == "inf"
    assert facts(loud)["odds"]["posterior"]["0.01"] == 1.0
    assert "A suspicion that was 1 % likely could become practically certain" in flat(loud)
    assert json.loads(json.dumps(facts(loud), allow_nan=False)) == facts(loud)
    edge = stated(horizon=7, pure=699.0)
    assert facts(edge)["odds"]["factor"] == math.exp(699.0)


def test_a_wrong_curve_would_be_seen():
    weaker = restated(SUM, mu=1.01 * SUM.mu)
    assert facts(weaker)["guessing"] != facts(SUM)["guessing"]
    assert facts(weaker)["power"] != facts(SUM)["power"]


def test_what_each_relation_says():
    assert "including the party that collects the reports" in flat(LOCAL)
    assert "all other users together" in flat(JOINT)
    assert "any computing power" in flat(SUM)
    assert facts(JOINT)["paper_epsilon"] == 36.5


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
    assert explain(dataclasses.replace(SUM, seeded=True)).startswith("NOT PROTECTED: the noise is")
    assert explain(SUM).startswith("protected: epsilon = 1")
    point = restated(PURE, profile=None, delta=1e-9)
    assert facts(point)["groups"]["2"] == "inf"
    assert not re.search(r"\b(inf|nan)\b", flat(point))


# -- the page ------------------------------------------------------------------------

HEADS = ["Privacy statement", "What is protected", "Who is protected", "Against whom",
         "For how long", "What an attacker could still learn", "What counts as public",
         "What the operator must do", "What the program does", "What the protection rests on",
         "What is not covered", "Words", "For experts", "Stated by the issuer, not checked",
         "Reviewed outside the project"]  # fmt: skip


def page(guarantee, **options):
    text = explain(guarantee, **options)
    assert max(map(len, text.splitlines())) <= 88
    assert len(text.splitlines()) <= 110  # two pages
    return " ".join(text.split())


@pytest.mark.parametrize("guarantee", [SUM, PURE, LOCAL, JOINT], ids=["sum", "pure", "local", "j"])
def test_the_plain_page_has_every_condition_once(guarantee):
    text = explain(guarantee)
    heads = [line for line in text.splitlines() if not line.startswith(" ") and line != "WARNING"]
    assert set(heads[1:]) <= set(HEADS)
    for needed in ("What the operator must do", "What is not covered", "For experts"):
        assert needed in heads
    flat = page(guarantee)
    for condition in guarantee.conditions:
        assert flat.count(" ".join(condition.split())) == 1, condition
    for term in ("neighbour", "differential", "sensitivity", "mechanism described", " too."):
        assert term not in flat.split("For experts")[0]


@pytest.mark.parametrize("guarantee", [SUM, PURE, LOCAL, JOINT], ids=["sum", "pure", "local", "j"])
def test_the_three_risks_are_the_curves(guarantee):
    text, record = page(guarantee), facts(guarantee)
    found = {
        r"at most ([\d.]+) %, instead of 0.1 %": power.test_power(guarantee, 0.001),
        r"at most ([\d.]+) %, instead of 1 %": power.test_power(guarantee, 0.01),
        r"at most ([\d.]+) %, instead of 50 %": power.guessing_probability(guarantee),
        r"1 % likely becomes at most ([\d.]+) % likely": record["odds"]["posterior"]["0.01"],
    }
    for pattern, exact in found.items():
        (said,) = re.findall(pattern, text)
        assert -1e-12 <= float(said) / 100.0 - exact <= 0.0011  # rounded up
    assert ("except with a chance" in text) == (guarantee.delta > 0.0)
    if guarantee.delta > 0.0:
        chance = 2.0 * guarantee.delta
        assert_rounded_up(chance, text, "except with a chance of ", digits=2)
    odd = restated(guarantee, delta=1.72e-6) if guarantee.delta > 0.0 else None
    assert odd is None or "except with a chance of 3.5e-06." in page(odd)
    for risk in ("Singling out.", "Linkability.", "Inference.", "recital 26"):
        assert risk in text
    assert ("who see what the protected user is shown" in text) == (guarantee.view == "others")


def test_words_follow_the_numbers():
    """What is said of closeness and of certainty is what the curve allows."""
    assert "look almost the same" in page(stated(horizon=7, pure=0.1))
    for pure, words in ((0.9, "look similar"), (3.0, "may differ clearly"), (10.5, "in name only")):
        assert words in page(stated(horizon=7, pure=pure))
        assert "almost the same" not in page(stated(horizon=7, pure=pure))
    loud = page(stated(horizon=7, pure=20.0))
    assert loud.count("practical certainty") == 2
    assert "The guess could be practically certain" in loud
    assert "100 %" not in loud
    for pure in (0.3, 5.0, 7.0, 9.0, 11.0, 30.0, 800.0):
        assert "at most 100" not in page(stated(horizon=7, pure=pure))


def linked(releases, contents, prior_guess):
    """Return the chance of the best pick among equally likely contents, by enumeration."""
    del prior_guess
    return sum(max(law[x] for law in contents) for x in releases) / len(contents)


def test_singling_out_and_linking_are_bounded_for_all_laws():
    """Randomised response, for which pure privacy is attained: the best pick and description."""
    epsilon, many = 1.0, 100
    claim = stated(horizon=1, pure=epsilon)
    keep = math.exp(epsilon) / (math.exp(epsilon) + many - 1)
    laws = [[keep if x == j else (1 - keep) / (many - 1) for x in range(many)]
            for j in range(many)]  # fmt: skip
    best = linked(range(many), laws, None)
    assert best <= power.test_power(claim, 1.0 / many) * (1 + 1e-12)
    assert best > 2.0 / many  # and it is not far below
    # A description that names the released content fits one in `many` people by chance.
    assert keep <= power.test_power(claim, 1.0 / many) * (1 + 1e-12)


def test_the_plain_page_warns():
    assert "WARNING" not in page(PURE) or PURE.description is None
    loud = stated(horizon=7, pure=10.5)
    assert "epsilon = 10.5 is above 10" in page(loud)
    assert "above 10" not in page(stated(horizon=7, pure=9.5))
    assert SUM.delta == 1e-6
    assert "WARNING" not in page(SUM)
    assert "above 1 in" not in page(SUM, people=10**6)
    assert "delta = 1e-06 is above 1 in 1,000,001, the number of people" in page(
        SUM, people=10**6 + 1
    )
    seeded = dataclasses.replace(SUM, seeded=True)
    assert "would hold if it were secret" in page(seeded)
    assert "SEEDED SOURCE" in page(seeded)
    with pytest.raises(ValueError, match="people"):
        explain(SUM, people=0)


def test_the_plain_page_names_promises_people_and_those_who_come_back():
    declared = Guarantee.gaussian(sensitivity=1.0, noise_scale=8.0, delta=1e-6, horizon=50)
    assert page(declared).count("PROMISED, not enforced:") == 2
    assert "The numbers below hold if every promise is kept" in page(declared)
    assert "Of ten together, a guess between two contents" in page(declared)
    person = declared.for_person(3, 2)
    assert "All that any one person contributes" in page(person)
    assert "Each person contributes at most 3 rounds, any two at least 2 apart." in page(person)
    assert "two accounts of a person count as two people" in page(person)
    assert "Of ten together" not in page(person)
    assert "was left empty" in page(dataclasses.replace(SUM, change="zero_out"))
    assert "last digits" in page(declared)
    assert "No privacy is promised" in page(Guarantee.none(5))


def test_the_head_says_what_the_statement_is_about():
    about = {"Title": "Offers", "File": "offers.json", "Operator": "Shop Ltd"}
    lines = explain(SUM, about=about).splitlines()
    at = lines.index("Privacy statement: Offers")
    assert lines[at + 1 : at + 4] == [
        f"  - Software: dpoco {dpoco.__version__}", "  - File: offers.json",
        "  - Operator: Shop Ltd",
    ]  # fmt: skip
