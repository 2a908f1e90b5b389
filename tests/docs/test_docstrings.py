"""Examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
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
