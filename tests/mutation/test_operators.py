"""The mutator itself: changes are real, single, and never touch what only people read."""

from __future__ import annotations

import importlib.util
import math
import sys
import types
from pathlib import Path

import pytest
from tests.mutation import operators

SOURCE = '''
"""A module: 1 + 1."""

import math

__all__ = ["f"]


def f(x: float, y: float = 2.0) -> float:
    """Return 3 * x."""
    if not x >= 0.0:
        raise ValueError(f"x must be at least {0 + 0}")
    return max(x, y) + math.exp(-x) if x < 5 and y > 1 else x * y
'''


def run(index=None):
    tree = compile(SOURCE if index is None else operators.mutated(SOURCE, index), "m", "exec")
    module = {}
    exec(tree, module)
    return module["f"]


def test_every_mutant_is_one_change_that_compiles():
    found = operators.mutants(SOURCE)
    assert [m.index for m in found] == list(range(len(found)))
    assert len({(m.line, m.column, str(m)) for m in found}) == len(found)
    for mutant in found:
        run(mutant.index)
    for text in ("x >= 0.0 -> x < 0.0", "x >= 0.0 -> x > 0.0", "2.0 -> 4.0", "-x -> x",
                 "max(x, y) -> min(x, y)", "math.exp(-x) -> math.expm1(-x)", "x * y -> x / y",
                 "x < 5 and y > 1 -> x < 5 or y > 1", "x * y -> x"):  # fmt: skip
        assert text in map(str, found), text


def test_text_is_left_alone():
    for mutant in operators.mutants(SOURCE):
        assert mutant.line >= 9
        assert "0 + 0" not in mutant.before


def test_what_changes():
    points = [(x, y) for x in (0.0, 0.5, 5.0, 7.0) for y in (0.5, 1.0, 2.0)]
    before = [run()(x, y) for x, y in points]
    assert before[1] == 2.0 * math.exp(0.0) - 2.0
    seen = 0
    for mutant in operators.mutants(SOURCE):
        try:
            after = [run(mutant.index)(x, y) for x, y in points]
        except (ValueError, ZeroDivisionError):
            after = None
        seen += after != before
    assert seen >= 0.85 * len(operators.mutants(SOURCE))


def test_there_is_an_end():
    with pytest.raises(IndexError):
        operators.mutated(SOURCE, 10_000)


PLANTED = """
import functools
from dataclasses import dataclass

SCALE = 2.0


@dataclass(frozen=True)
class Point:
    x: float = 3.0

    @property
    def far(self) -> bool:
        return self.x > 1.0

    @functools.lru_cache
    def scaled(self) -> float:
        return SCALE * self.x
"""


def values(module, constant):
    try:
        far = [module.Point(x).far for x in (0.75, 1.0, 1.5)]
        return module.Point().x, far, module.Point(4.0).scaled(), constant()
    except (ValueError, TypeError) as error:
        return repr(error)


def test_an_imported_module_becomes_its_mutant(tmp_path, monkeypatch):
    """What others took from the module changes with it; put in unchanged, nothing does."""
    path = tmp_path / "planted_for_mutation.py"
    path.write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from tests.mutation.transfer import transferred

    planted = importlib.import_module("planted_for_mutation")
    monkeypatch.setitem(sys.modules, "other_module", other := types.ModuleType("other_module"))
    other.SCALE = planted.SCALE
    before = values(planted, lambda: other.SCALE)
    for index in range(len(operators.mutants(PLANTED))):
        transferred("planted_for_mutation", index)
        assert values(planted, lambda: other.SCALE) != before, index
        transferred("planted_for_mutation", None)
        assert values(planted, lambda: other.SCALE) == before, index
    monkeypatch.delitem(sys.modules, "planted_for_mutation")
