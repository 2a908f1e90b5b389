"""The page of the command line shows what the commands print.

``python -P -m tests.docs.test_cli_page`` writes the outputs into the page anew.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = re.compile(
    r"<!-- output(?:: first (\d+) lines)? -->\n```console\n\$ dpoco ([^\n]*)\n(.*?)```", re.DOTALL
)


def output(command: str, lines: str) -> str:
    """What the command prints, without spaces at the ends of lines."""
    from typer.testing import CliRunner

    from dpoco.cli._app import app

    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    printed = [line.rstrip() for line in result.output.splitlines()]
    return "\n".join(printed[: int(lines)] if lines else printed) + "\n"


BLOCKS = BLOCK.findall(PAGE.read_text())


@pytest.mark.parametrize(("lines", "command", "shown"), BLOCKS, ids=[b[1] for b in BLOCKS])
def test_shown_output_is_printed(lines, command, shown, tmp_path, monkeypatch):
    pytest.importorskip("river")
    monkeypatch.chdir(tmp_path)
    assert len(shown) > 20
    printed = output(command, lines)
    if "(needs" in printed:
        pytest.skip("the river of this Python lacks streams, and the list says so")
    assert numbers_apart(shown) == numbers_apart(printed)


def numbers_apart(text: str) -> tuple[str, tuple[float, ...]]:
    """Words, and numbers to five digits: the last ones may be the machine's.

    With them the length of a state moves, which has its numbers in full: two digits of that.
    """
    length = re.compile(r"(\d[\d,]*) bytes")
    text = length.sub(lambda found: f"{float(found[1].replace(',', '')):.2g} bytes", text)
    number = re.compile(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
    found = tuple(float(f"{float(n.replace(',', '')):.5g}") for n in number.findall(text))
    return " ".join(number.sub("#", text).split()), found


def test_every_command_is_on_the_page():
    import typer

    from dpoco.cli._app import app

    page = PAGE.read_text()
    commands = typer.main.get_command(app).commands
    assert {name for name in commands if f"`dpoco {name}`" not in page} == set()


def write() -> None:
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)

        def shown(match: re.Match[str]) -> str:
            head = match.group(0).split("```console\n")[0]
            printed = output(match.group(2), match.group(1))
            return f"{head}```console\n$ dpoco {match.group(2)}\n{printed}```"

        PAGE.write_text(BLOCK.sub(shown, text))


if __name__ == "__main__":
    write()
