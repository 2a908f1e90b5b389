"""The learner that the page for contributors adds is added as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dpoco.audit import check_learner, replay_audit, standard_case

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.fixture(scope="module")
def page():
    section = PAGE.partition("## Add a learner\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    names = {}
    for block in blocks:
        exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    return names


def test_the_two_calls_of_the_page_pass(page, capsys):
    assert {"replays_move_no_more_than_stated", "horizons_are_walls"} <= set(page["passed"])
    assert len(page["passed"]) >= 13
    report = page["report"]
    assert not report.violated
    assert {attack.name: attack.verdict for attack in report.attacks}["replay"] == "nothing found"


def test_a_gradient_that_goes_round_the_sum_is_found(page):
    follower = page["SumFollower"]

    class Impatient(follower):
        """Steps against the gradient as it is, too."""

        def observe(self, features, label):
            own = np.nan_to_num(self.loss.gradient(self._theta, features, label))
            super().observe(features, label)
            self._theta = self._theta - 0.1 * own

    honest, case = standard_case(follower), standard_case(Impatient)
    assert replay_audit(honest.make_learner, honest.stream, honest.replacements).passed
    found = replay_audit(case.make_learner, case.stream, case.replacements).findings
    assert any("otherwise than through answers of gradients" in text for text in found)


def test_what_a_class_lacks_is_named():
    class Eager:
        def __init__(self, domain, loss, *, horizon):
            pass

    with pytest.raises(TypeError, match=r"a Eager must take budget, source"):
        check_learner(Eager)
    with pytest.raises(ValueError, match="Eager has no standard case: its constructor takes no"):
        standard_case(Eager)

    class Empty:
        def __init__(self, experts, *, horizon, budget, source=None):
            self.experts = experts

        def decide(self):
            return 0

    with pytest.raises(TypeError, match="Empty that plays experts needs observe, round, horizon"):
        check_learner(Empty)
    stream = np.zeros((4, 3))
    with pytest.raises(TypeError, match="no audit of a Empty: its guarantee describes no"):
        replay_audit(lambda source: Empty(3, horizon=4, budget=None), stream, [(1, np.ones(3))])
