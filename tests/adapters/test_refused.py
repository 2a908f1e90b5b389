"""Refused arguments of estimators, each next to one that is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.privacy.test_vectors import lines
from tests.test_refused import KNOWN, check

pytest.importorskip("river")
pytest.importorskip("sklearn")

from dpoco.adapters import river, sklearn
from dpoco.adapters._features import FeatureMap, LabelMap

ESTIMATORS = {"FeatureMap": FeatureMap, "LabelMap": LabelMap, **vars(river), **vars(sklearn)}
LINES = lines(Path(__file__).with_name("refused.txt")).values()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:60])
def test_refused_arguments_are_named_and_others_are_taken(line):
    check(line, KNOWN | ESTIMATORS)
