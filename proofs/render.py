"""Puts the operations of the compiled kernels into the scripts, in place of lines with "@".

    python3 proofs/render.py FOLDER [COMPILER]

* `@gappa KERNEL NAME=NUMBER ...`: all operations, rounded (small letters) and exact (capitals);
  NAME:NUMBER is an input, and nothing before it is written.
* `@sollya NAME KERNEL LAST FIRST`: operation LAST, exact, in x, the result of operation FIRST.
* `@constant NAME KERNEL NUMBER`: the constant in that operation.
* `@coq KERNEL LAST`: `let`s of the exact operations up to LAST.
"""

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).resolve().parent
Operations = dict[str, list[tuple[str, str, str]]]


def operations(folder: Path, compiler: str = "c++") -> Operations:
    """Run the kernels on numbers that write down what is done to them: left, operator, right."""
    program = folder / "trace"
    include = HERE.parent / "cpp" / "include"
    source = HERE / "kernels" / "trace.cpp"
    subprocess.run([compiler, "-std=c++20", f"-I{include}", source, "-o", program], check=True)
    found: Operations = {}
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        kernel, number, left, sign, right = line.split()
        found.setdefault(kernel, []).append((left, sign, right))
        assert int(number) == len(found[kernel])
    return found


def named(text: str, names: dict[int, str]) -> str:
    """Return an operand under its name; a negative constant in parentheses."""
    if text.startswith("-"):
        return f"({text})"
    return names.get(int(text[1:]), text) if re.fullmatch(r"v\d+", text) else text


def gappa(steps: list[tuple[str, str, str]], pairs: list[str]) -> list[str]:
    """Return every operation twice: as it is rounded, and in capitals as it would be."""
    given = max((int(pair.split(":")[1]) for pair in pairs if ":" in pair), default=0)
    names = {int(number): name for name, number in (re.split("[=:]", pair) for pair in pairs)}
    lines = []
    for exact in (False, True):
        own = {i: names.get(i, f"v{i}") for i in range(1, len(steps) + 1)}
        if exact:
            own = {i: name if i <= given else name.upper() for i, name in own.items()}
        for i, (left, sign, right) in list(enumerate(steps, 1))[given:]:
            to = "=" if exact else "rnd="
            lines.append(f"{own[i]} {to} {named(left, own)} {sign} {named(right, own)};")
    return lines


def expression(steps: list[tuple[str, str, str]], last: int, first: int) -> str:
    """Return operation `last` in terms of x, the result of operation `first`."""
    if last == first:
        return "x"
    parts = []
    for operand in (steps[last - 1][0], steps[last - 1][2]):
        inner = re.fullmatch(r"v(\d+)", operand)
        parts.append(expression(steps, int(inner[1]), first) if inner else named(operand, {}))
    return f"({parts[0]} {steps[last - 1][1]} {parts[1]})"


def fraction(text: str) -> str:
    """Return a constant as a quotient of integers, names as they are."""
    if not re.match(r"-?0x", text):
        return text
    exact = Fraction(float.fromhex(text))
    return f"({exact.numerator} / {exact.denominator})"


def coq(steps: list[tuple[str, str, str]], last: int) -> list[str]:
    """Return the exact operations as definitions inside a term."""
    return [
        f"let v{i} := {fraction(left)} {sign} {fraction(right)} in"
        for i, (left, sign, right) in enumerate(steps[:last], 1)
    ]


def rendered(text: str, kernels: Operations) -> str:
    """Return a script with its directives carried out."""
    lines = []
    for line in text.splitlines():
        word, *rest = line.split() or [""]
        if word == "@gappa":
            lines += gappa(kernels[rest[0]], rest[1:])
        elif word == "@sollya":
            lines.append(f"{rest[0]} = {expression(kernels[rest[1]], int(rest[2]), int(rest[3]))};")
        elif word == "@constant":
            left, _, right = kernels[rest[1]][int(rest[2]) - 1]
            lines.append(f"{rest[0]} = {left if left.startswith('0x') else right};")
        elif word == "@coq":
            lines += coq(kernels[rest[0]], int(rest[1]))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    to = Path(sys.argv[1])
    traced = operations(to, *sys.argv[2:3])
    for script in [*HERE.glob("kernels/*.*"), *HERE.glob("lemmas/*.v")]:
        if script.suffix != ".cpp":
            (to / script.name).write_text(rendered(script.read_text(), traced))
