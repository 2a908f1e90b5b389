"""The pages of the command line show what the commands print.

``python -P -m tests.docs.test_cli_page`` writes the outputs into the pages anew.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

import pytest

import dpoco

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


PAGES = sorted(PAGE.parent.glob("cli*.md"))
BLOCKS = [block for page in PAGES for block in BLOCK.findall(page.read_text())]


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
    commands = typer.main.get_command(app).list_commands(None)
    assert {name for name in commands if f"`dpoco {name}`" not in page} == set()


LINES = re.compile(
    r"^(?:\$ |.*[`] ?)?(?:dpoco) ((?:[a-z][^\n`|#<>]|\\\n)[^\n`|#<>]*(?:\\\n[^\n`|#<>]*)*)",
    re.MULTILINE,
)


def test_commands_on_pages_have_the_options_they_use():
    from tests.docs.pages import DOCUMENTS
    from typer.core import TyperGroup

    from dpoco.cli._app import _COMMANDS, load_command

    seen, wrong = 0, []
    for page in DOCUMENTS:
        for match in LINES.finditer(page.read_text(encoding="utf-8")):
            name, *words = match[1].replace("\\\n", " ").split()
            if name not in _COMMANDS:
                continue
            command = load_command(name)
            if isinstance(command, TyperGroup):
                names = command.list_commands(None)
                inner = next((word for word in words if word in names), None)
                if inner is None:
                    continue
                command = command.get_command(None, inner)
            known = {"--help", *(o for each in command.params for o in each.opts)}
            known |= {o for each in command.params for o in each.secondary_opts}
            used = {word.partition("=")[0] for word in words if re.match(r"--\w", word)}
            seen += len(used)
            wrong += [f"{page.name}: {name} {option}" for option in sorted(used - known)]
    assert wrong == []
    assert seen > 100


def test_five_minutes_with_a_file_of_ones_own(tmp_path, monkeypatch):
    """Over a second: plays the whole page, with two runs."""
    from tests.docs.pages import run
    from typer.testing import CliRunner

    from dpoco.cli._app import app

    monkeypatch.chdir(tmp_path)
    page = (PAGE.parent / "five_minutes.md").read_text(encoding="utf-8")
    run(page, "five_minutes.md")
    outputs = []
    for asks, block in re.findall(r"(<!-- asks -->\n)?```bash\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == (2 if asks else 0), result.output
            outputs.append(result.output)
    for word in ("--label", "temperature, load", "door open (yes or no)"):
        assert word in outputs[0]
    model = dpoco.Model.load("newest.json")
    assert (model.round, model.features) == (4000, ("temperature", "load", "door open"))
    assert model.guarantee.certified
    assert "verified" in outputs[-2]
    lines = (tmp_path / "predictions.csv").read_text().splitlines()
    truth = [row.endswith("yes") for row in (tmp_path / "hour-3.csv").read_text().splitlines()]
    told = [(p, y) for p, y in zip(lines[1:], truth[1:], strict=True) if p != '""']
    assert 1900 < len(told) < 2000
    assert sum((float(p) > 0.5) == y for p, y in told) > 0.6 * len(told)


def write() -> None:
    def shown(match: re.Match[str]) -> str:
        head = match.group(0).split("```console\n")[0]
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            printed = output(match.group(2), match.group(1))
        return f"{head}```console\n$ dpoco {match.group(2)}\n{printed}```"

    for page in PAGES:
        page.write_text(BLOCK.sub(shown, page.read_text()))


if __name__ == "__main__":
    write()
