"""The figure of an audit."""

from __future__ import annotations

import numpy as np
import pytest
from tests.late import Late

from dpoco.audit import audit_learner, standard_case
from dpoco.plotting import plot_audit
from dpoco.plotting._drawing import new_figure

Late("matplotlib")


@pytest.fixture(scope="module")
def printed():
    return audit_learner(standard_case("batch-share", published="printed"), trials=300)


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_claimed_and_measured_curves(printed, tmp_path):
    axes = plot_audit(printed)
    axes.figure.savefig(tmp_path / "audit.svg")
    assert axes.get_title(loc="left") == "BatchShare: the claim is refuted"
    assert axes.get_yscale() == "log"
    lines = lines_of(axes)
    assert list(lines)[:3] == [
        "published claim: epsilon = 1, delta = 0",
        "stated here for this noise: epsilon = 10",
        "likelihood audit, at least",
    ]
    claimed = lines["published claim: epsilon = 1, delta = 0"]
    assert claimed.get_xdata()[-1] == 1.0  # and falls to the axis there
    assert claimed.get_ydata()[-1] == axes.get_ylim()[0]
    points = next(attack.points for attack in printed.attacks if attack.name == "likelihood")
    drawn = lines["likelihood audit, at least"].get_xydata()
    np.testing.assert_array_equal(drawn, sorted(p for p in points if p[1] > 0.0))
    looks = {(line.get_color(), str(line.get_linestyle())) for line in axes.get_lines()}
    assert len(looks) == len(axes.get_lines())


def test_a_claim_that_stands_and_axes_of_ones_own():
    report = audit_learner("continual-sum", trials=300)
    own = new_figure((4.0, 4.0)).subplots()
    assert plot_audit(report, ax=own) is own
    assert own.get_title(loc="left") == "ContinualSum: no violation found"
    assert "claim: epsilon = 1, delta = 0.001" in lines_of(own)
    assert own.get_ylim()[0] <= 1e-3
