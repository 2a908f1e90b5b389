"""`dpoco plan experts`: every admissible learner, in text and as JSON."""

from __future__ import annotations

from dpoco.accounting import Guarantee

PROBLEM = ("plan", "experts", "--experts", 10, "--horizon", 10**5, "--switches", 5)


def test_json_carries_everything(answer):
    record = answer(*PROBLEM, "--delta", 1e-6)
    assert record["schema"] == "dpoco.plan-auto/1"
    plans = record["choices"]
    first = [plan["learner"] for plan in plans[:2]]
    assert first == ["experts.ObliviousTracker", "experts.BatchShare"]
    bounds = [plan["regret_bound"] for plan in plans]
    assert bounds == sorted(bounds)
    for plan in plans:
        assert Guarantee.from_dict(plan["guarantee"]).delta_at(1.0) <= 1e-6 * (1 + 1e-9)


def test_text(invoke):
    text = invoke(*PROBLEM).stdout
    assert "ObliviousTracker" in text
    assert "oblivious" in text
    assert "Differential privacy: epsilon = " in text
