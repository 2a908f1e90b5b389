"""Machine proofs: pages and theorems name each other, and scripts are about the code as it is."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
sys.path.insert(0, str(PROOFS))

import render  # noqa: E402

PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs/privacy").glob("*.md"))}
NAMED = re.compile(
    r"`(proofs/(?:lemmas|kernels|integers)/[\w.]+)`(?:\s+\((`\w+`(?:,\s+`\w+`)*)\))?"
)


def theorems() -> set[tuple[str, str]]:
    """Return the files of scripts, those of Coq with each theorem."""
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in PROOFS.glob("lemmas/*.v")
        for name in re.findall(r"^(?:Theorem|Corollary) (\w+)", path.read_text(), re.MULTILINE)
    }
    for pattern in ("kernels/*.gappa", "kernels/*.sollya", "integers/*.py"):
        found |= {(str(path.relative_to(ROOT)), "") for path in PROOFS.glob(pattern)}
    return found


def claims(text: str) -> set[tuple[str, str]]:
    """Return what a page says is machine-checked: files, those of Coq with each theorem."""
    return {
        (file, name)
        for file, names in NAMED.findall(text)
        for name in (re.findall(r"\w+", names) if names else [""])
    }


def vague(text: str) -> list[str]:
    """Return mentions of machine checks that do not go on to a file within the sentence."""
    return [
        match.group()
        for match in re.finditer(r"machine-checked[^.]*", text, re.IGNORECASE)
        if "`proofs/" not in match.group()
    ]


def misquoted(script: str) -> list[str]:
    """Return the lines of code that a script quotes and that its file does not have."""
    wrong = []
    for file, lines in re.findall(
        r"^(?:#|\(\*) (cpp/\S+):\n((?:#?     .*\n)+)", script, re.MULTILINE
    ):
        code = " ".join((ROOT / file).read_text().split())
        quotes = [" ".join(line.removeprefix("#").split()) for line in lines.splitlines()]
        wrong += [f"{file}: {quote}" for quote in quotes if quote not in code]
    return wrong


def test_pages_and_theorems_name_each_other():
    assert len(theorems()) > 25
    assert set().union(*map(claims, PAGES.values())) == theorems()
    for page, text in PAGES.items():
        assert vague(text) == [], page


def test_code_that_scripts_quote_is_there():
    texts = (path for path in PROOFS.glob("*/*") if path.is_file() and path.suffix != ".pyc")
    scripts = [path.read_text() for path in texts]
    assert sum(len(re.findall(r"^(?:#|\(\*) cpp/", script, re.M)) for script in scripts) >= 14
    for script in scripts:
        assert misquoted(script) == []


def test_the_checks_see_what_is_wrong():
    assert claims("`proofs/lemmas/Tree.v` (`a`, `b`) `proofs/integers/trees.py`") == {
        ("proofs/lemmas/Tree.v", "a"),
        ("proofs/lemmas/Tree.v", "b"),
        ("proofs/integers/trees.py", ""),
    }
    assert claims("`proofs/lemmas/Tree.v`") - theorems()  # without its theorems
    assert vague("It is machine-checked. See `proofs/lemmas/Tree.v`.")
    quote = "# cpp/src/random/source.cpp:\n#     return {key_.data(), (stream_ << 4) | nonce, x};\n"
    assert misquoted(quote)
    assert not misquoted(quote.replace(" x}", " superblock}"))
    assert misquoted(quote.replace("# cpp", "(* cpp").replace("#  ", "  "))


DOUBLES = """
#include <cstdio>
#include "dpoco/simd/elementary.hpp"
namespace el = dpoco::elementary;
int main() {
  double x, k;
  while (std::scanf("%la %la", &x, &k) == 2) {
    std::printf("%a %a %a %a %a\\n", el::log_reduced(x, 0.0), el::log_reduced(x, k), el::sine(x),
                el::cosine(x), el::exp(x));
  }
}
"""


def computed(steps: list[tuple[str, str, str]], **inputs: float) -> float:
    """Carry out operations that were written down."""
    values = dict(inputs)
    for i, (left, sign, right) in enumerate(steps, 1):
        a, b = (
            values[operand] if operand in values else float.fromhex(operand)
            for operand in (left, right)
        )
        values[f"v{i}"] = {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b
    return values[f"v{len(steps)}"]


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_operations_that_proofs_are_about_are_those_of_the_kernels(tmp_path):
    """Over a second: two programs are compiled, one that writes down operations, one that runs."""
    kernels = render.operations(tmp_path)
    assert kernels.keys() == {
        "log_near_one", "log_reduced", "sine", "cosine", "exp", "uniform", "angle"
    }  # fmt: skip
    source, program = tmp_path / "doubles.cpp", tmp_path / "doubles"
    source.write_text(DOUBLES)
    include = f"-I{ROOT / 'cpp' / 'include'}"
    command = ["c++", "-std=c++20", "-ffp-contract=off", include, source, "-o", program]
    subprocess.run(command, check=True)
    draw = random.Random(1)
    points = [(draw.uniform(-0.29, 0.34), float(draw.randint(-1074, -1))) for _ in range(200)]
    text = "".join(f"{x.hex()} {k.hex()}\n" for x, k in points)
    output = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    for (x, k), line in zip(points, output.stdout.splitlines(), strict=True):
        near, log, sine, cosine, exp = map(float.fromhex, line.split())
        assert -computed(kernels["log_near_one"], f=x) == near
        assert computed(kernels["log_reduced"], f=x, k=k) == log
        assert computed(kernels["sine"], x=x) == sine
        assert computed(kernels["cosine"], x=x) == cosine
        assert computed(kernels["exp"], x=x) == exp
    script = render.rendered((PROOFS / "kernels/sine.gappa").read_text(), kernels)
    assert "z rnd= x * x;" in script
    assert "Z = x * x;" in script
    assert "@gappa" not in script
