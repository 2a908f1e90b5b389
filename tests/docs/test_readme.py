"""What the documents say is run, and what they point to exists."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.docs.pages import DOCUMENTS, disguised, run, snippets, with_outputs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import readme_numbers  # noqa: E402

# Run by other tests: below, in processes of their own, with what the command does in between.
ELSEWHERE = {
    "README.md", "docs/bandit_service.md", "docs/deep_learning.md", "docs/five_minutes.md",
    "docs/guide/statistics.md", "docs/own_learner.md", "docs/recipes/coming_from.md",
}  # fmt: skip
RUN = [
    path
    for path in DOCUMENTS
    if str(path.relative_to(ROOT)) not in ELSEWHERE
    and any(each.reason is None for each in snippets(path.read_text(encoding="utf-8")))
]


def test_snippets_are_not_disguised_and_those_not_run_say_why():
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        assert disguised(text) == [], path
        for snippet in snippets(text):
            assert snippet.reason is None or len(snippet.reason.split()) >= 3, path


@pytest.mark.parametrize("path", RUN, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_snippets_run_and_print_what_pages_show(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = path.read_text()
    for file in (ROOT / "examples").glob("*.*"):  # which a page may start
        if f'"{file.name}"' in text:
            if file.suffix == ".toml":
                pytest.importorskip("tomllib")  # Python 3.11
                pytest.importorskip("uvicorn")
            shutil.copy(file, tmp_path)
    try:
        printed = run(text, str(path))
    except ImportError as error:
        if error.name not in ("jax", "river", "torch"):
            raise
        pytest.skip(f"{error.name} is not installed, or does not bundle the page's stream")
    for snippet, output in zip(snippets(text), printed, strict=True):
        if snippet.shown is not None:
            assert output == snippet.shown
    for figure in re.findall(r"savefig\(\"([^\"]+)\"", text):
        assert (tmp_path / figure).stat().st_size > 1000
        if f"figures/{figure})" in text:
            assert (ROOT / "docs" / "figures" / figure).stat().st_size < 500_000


def test_snippets_are_found_and_filled():
    page = (
        "a\n```python\nprint(1)\n```\n\n```text\n2\n```\n<!-- not run: needs a crash -->\n"
        "```python\n1 / 0\n```\n\n```python\nx = 1\n```\n\n"
        "```text\nold\n```\n\nb\n\n```text\nown\n```\n"
    )
    found = snippets(page)
    assert [s.shown for s in found] == ["2\n", None, "old\n"]
    assert [s.reason for s in found] == [None, " needs a crash ", None]
    printed = run(page, "page")
    assert printed == ["1\n", None, ""]
    filled = with_outputs(page, printed)
    assert "```text\n1\n```" in filled
    assert "old" not in filled
    assert "own" in filled
    assert with_outputs(filled, printed) == filled
    for head in ("py", "python3", "{code-block} python", "pycon", "python title=x"):
        assert len(disguised(f"```{head}\n1\n```\n")) == 1
    assert disguised("```python\n1\n```\n```bash\npython x.py\n```\n") == []


def test_numbers_of_the_readme_are_those_of_their_sources():
    text = (ROOT / "README.md").read_text()
    assert readme_numbers.write_numbers(text) == text
    wrong = text.replace("at most 1.06 times", "at most 1.01 times")
    assert wrong != text
    assert readme_numbers.write_numbers(wrong) == text
    with pytest.raises(ValueError, match="no number"):
        readme_numbers.write_numbers(text.replace("long runs reach", "long runs make"))


def test_the_readme_has_a_short_example_for_every_door(tmp_path, monkeypatch, capsys):
    text = (ROOT / "README.md").read_text()
    found = snippets(text)
    assert len(found) == text.count("\n**I ") == 4
    assert disguised(text) == []
    monkeypatch.chdir(tmp_path)
    names = {}
    for snippet in found:
        assert snippet.reason is None
        assert len([line for line in snippet.code.splitlines() if line.strip()]) <= 20
        exec(compile(snippet.code, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "epsilon = 1, delta = 1e-06" in printed
    assert re.search(r"visits 1[12]\d\d", printed)
    own, zero = map(float, re.search(r"average loss ([\d.]+), .* zero ([\d.]+)", printed).groups())
    assert own < zero


def test_continuous_integration_runs_the_readme_command():
    command = re.search(
        r"<!-- test command -->\n```bash\n(.*?)\n```", (ROOT / "README.md").read_text()
    )
    assert "pytest" in command.group(1)
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text()


def test_the_noise_table_is_what_the_command_prints():
    from typer.testing import CliRunner

    from dpoco.cli._app import app

    printed = CliRunner().invoke(app, ["table", "noise"]).output
    assert printed.count("\n") > 5
    assert printed.strip() in (ROOT / "docs" / "noise.md").read_text()


def test_the_bound_the_readme_names_is_the_computed_one():
    from dpoco.accounting.continual_sum import lower_bound, max_error

    (stated,) = re.search(r"at most ([\d.]+) times the least", readme()).groups()
    rounds = [int(10.0**e) for e in (3, 3.01, 3.5, 4, 4.01, 5, 6, 7, 7.01, 7.5, 7.8, 8)]
    errors = [max_error("blt_normalised", n) / lower_bound(n) for n in rounds]
    assert round(max(errors), 2) == float(stated)


def test_the_noise_saving_the_errata_name_is_the_computed_one():
    from dpoco.published.tables import noise_table

    ratios = [entry.blt_ratio for entry in noise_table(epsilons=[1.0])]
    errata = (ROOT / "docs" / "errata.md").read_text()
    low, high = map(int, re.search(r"(\d+) to (\d+) times against the", errata).groups())
    assert round(min(ratios)) == low
    assert int(max(ratios)) == high


def readme() -> str:
    return " ".join((ROOT / "README.md").read_text().split())
