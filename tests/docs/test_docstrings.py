"""Docstrings describe the arguments that there are, and their examples print what they say."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "dpoco"
MODULES = sorted(
    ".".join(("dpoco", *file.relative_to(PACKAGE).with_suffix("").parts))
    for file in PACKAGE.rglob("*.py")
    if any(
        ">>> " in line and "doctest: +SKIP" not in line
        for line in file.read_text(encoding="utf-8").splitlines()
    )
)

# What the examples of these modules need besides.
EXTRAS = {
    "dpoco._encryption": "cryptography",
    "dpoco.accounting.signatures": "cryptography",
    "dpoco.adapters.river": "river",
    "dpoco.adapters.sklearn": "sklearn",
    "dpoco.adapters.torch": "torch",
}


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    module = importlib.import_module(name.removesuffix(".__init__"))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def described(docstring, section):
    """Return the names that a section of a NumPy docstring describes, one entry for each."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(section, "")
    items = [line.split(" : ")[0] for line in text.split("\n") if re.match(r"\S", line)]
    return [name.strip().lstrip("*") for item in items for name in item.split(",")]


def test_sections_describe_arguments_and_attributes():
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            docstring = ast.get_docstring(node) or ""
            names = set(described(docstring, "Parameters"))
            attributes = [*names, *described(docstring, "Attributes")]
            said = {name for name in attributes if name != "..." and not name.isidentifier()}
            if isinstance(node, ast.FunctionDef) and names and "..." not in names:
                own, variadic = node.args, (node.args.vararg, node.args.kwarg)
                named = {each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs)}
                said |= names - named - {each.arg for each in variadic if each}
                said |= named - names - {"self", "cls"}
            wrong += [f"{file.stem}.{node.name}: {name}" for name in sorted(said)]
    assert wrong == []
