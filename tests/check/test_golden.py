"""Certified numbers are those of `tests/pins/golden.json`."""

from __future__ import annotations

import warnings
from collections import defaultdict

import pytest
from check import golden
from tests.pins import files

from dpoco.errors import CalibrationError
from dpoco.random import Source

CASES = defaultdict(list)
for case in golden.cases():
    short = case[2].get("horizon") == 37 and "participation" not in case[2]
    if short or "records" in case[2]:
        CASES[case[0].__name__].append(case)


@pytest.mark.parametrize("kind", CASES)
def test_certified_numbers(kind):
    """Over a second: all short configurations of the file, those of one class at a time."""
    was = files.read("golden")["certified"]
    for case in CASES[kind]:
        kind, problem, options = case
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # noise may dominate
                now = golden.certify(
                    kind(*problem, source=Source.seeded(5), **golden.bounds(kind), **options)
                )
        except CalibrationError:
            now = {"refused": True}
        assert golden.find_moved(was[golden.case_name(case)], now, exact=False) == [], case
