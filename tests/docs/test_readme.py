"""What the documents say is run, and what they point to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def snippets(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_snippets_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for snippet in snippets(path):
        exec(compile(snippet, str(path), "exec"), namespace)


def test_the_quickstart_shows_learning_and_is_short(tmp_path, monkeypatch, capsys):
    (snippet,) = snippets(ROOT / "README.md")
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 20
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "epsilon = 1, delta = 1e-06" in printed
    own, zero = map(float, re.search(r"average loss ([\d.]+), .* zero ([\d.]+)", printed).groups())
    assert own < zero


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_named_files_exist(path):
    text = path.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (path.parent / target).exists(), target
    for name in re.findall(
        r"`((?:docs|tests|bench|cpp|python)/[\w./]+?\.(?:md|py|cpp|hpp))`", text
    ):
        assert (ROOT / name).exists(), name


def test_every_proof_a_docstring_names_exists():
    for path in [*ROOT.glob("python/**/*.py"), *ROOT.glob("cpp/**/*.?pp")]:
        for name in re.findall(r"docs/(?:privacy/)?\w+\.md", path.read_text()):
            assert (ROOT / name).exists(), f"{path}: {name}"


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


def test_the_noise_saving_the_readme_names_is_the_computed_one():
    from dpoco.accounting.tables import noise_table

    ratios = [entry.blt_ratio for entry in noise_table(epsilons=[1.0])]
    low, high = map(int, re.search(r"(\d+) to (\d+) times less", readme()).groups())
    assert round(min(ratios)) == low
    assert int(max(ratios)) == high


def readme() -> str:
    return " ".join((ROOT / "README.md").read_text().split())
