"""Planted bugs of selections and thresholds: the catalogue is right about them."""

from __future__ import annotations

import importlib

import pytest

kit = importlib.import_module("planted_bugs.kit")
bugs = importlib.import_module("planted_bugs.selections").BUGS
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("bug", bugs, ids=lambda bug: bug.name)
def test_its_checks_notice_it_and_nothing_else(bug):
    assert bug.checks
    assert kit.silent(bug) == {check.__name__: True for check in bug.checks}
    assert kit.noticed(bug) == {check.__name__: True for check in bug.checks}
