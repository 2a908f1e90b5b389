"""The notebooks run from the first cell to the last, and what their cells end with shows itself."""

from __future__ import annotations

import ast
import json

import numpy as np
import pytest
from tests.docs.pages import ROOT

import dpoco

NOTEBOOKS = sorted(ROOT.glob("examples/notebooks/*.ipynb"))

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def shown(value):
    """Return what a notebook shows of the value of a cell."""
    for name in ("_repr_png_", "_repr_html_"):
        if callable(getattr(value, name, None)):
            return getattr(value, name)()
    return None if value is None else repr(value)


def played(cells):
    """Run the cells as one program, and yield what each shows."""
    namespace = {}
    for number, text in enumerate(cells):
        tree = ast.parse(text)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), namespace)
        ended = ast.Expression(last.value) if last else ast.parse("None", mode="eval")
        yield shown(eval(compile(ended, f"cell {number}", "eval"), namespace))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_they_end_with(path):
    """Over a second: they play what they show."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)  # no stale numbers
    found = list(played("".join(cell["source"]) for cell in code))
    pictures = [each for each in found if isinstance(each, bytes)]
    assert all(each.startswith(b"\x89PNG") for each in pictures)
    tables = [each for each in found if isinstance(each, str) and each.startswith("<b>")]
    assert (len(pictures), len(tables)) == {"compare_learners": (2, 2), "what_is_promised": (0, 4)}[
        path.stem
    ]


def test_what_shows_itself_is_found_without_a_notebook():
    guarantee = dpoco.Guarantee.none(3)
    assert shown(guarantee) == guarantee._repr_html_()
    assert shown(np.float64(1.5)) == repr(np.float64(1.5))
    assert shown(None) is None
