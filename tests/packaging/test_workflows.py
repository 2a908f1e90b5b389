"""Workflows call scripts that exist, trust what they name, and may do no more than they must."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
yaml = pytest.importorskip("yaml")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Publishing is a branch on purpose: its releases follow the registry's rules.
BRANCHES = {"pypa/gh-action-pypi-publish@release/v1"}
# What a step may run besides a script of this repository.
OTHERS = {'python -m pip install "cibuildwheel>=3,<5"', "python -m cibuildwheel --output-dir dist"}


@pytest.fixture(scope="module")
def tool():
    """Import a program of tools/."""
    sys.path.insert(0, str(ROOT / "tools"))
    pytest.importorskip("tomllib")  # Python 3.11
    yield __import__
    sys.path.remove(str(ROOT / "tools"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path):
    return [step for job in read(path)["jobs"].values() for step in job.get("steps", ())]


def test_the_workflows_are_these():
    names = {path.stem for path in WORKFLOWS}
    assert names == {"checks", "release", "sanitizers", "site", "wheels"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_is_a_script_of_this_repository(path):
    for step in steps(path):
        command = step.get("run")
        if command is None or command in OTHERS:
            continue
        words = command.split()
        script = ROOT / words[words[0] == "python"]
        assert "\n" not in command.strip(), command
        assert script.is_file(), command
        text = script.read_text(encoding="utf-8")
        known = set(re.findall(r"\w+", re.search(r'^all="(.*)"$', text, re.M)[1])) if (
            script.name == "run") else set(re.findall(r'"(--[\w-]+)"', text))  # fmt: skip
        plain = [word for word in words[2 if words[0] == "python" else 1 :] if "$" not in word]
        given = plain if script.name == "run" else [w for w in plain if w.startswith("--")]
        assert set(given) <= known, command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_to_commits(path):
    text = path.read_text(encoding="utf-8")
    for action, comment in re.findall(r"uses: (\S+)(?:  # (\S+))?$", text, re.M):
        pinned = re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) and comment.startswith("v")
        assert pinned or action in BRANCHES or action.startswith("./.github/workflows/"), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_only_what_publishes_may_write(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        writes = {what for what, how in job.get("permissions", {}).items() if how != "read"}
        allowed = {"publish": {"id-token", "attestations"}, "deploy": {"id-token", "pages"}}
        assert writes == allowed.get(name, set()), name
        assert not writes or "environment" in job, name
    assert "secrets" not in path.read_text(encoding="utf-8")


def test_every_version_and_target_of_the_wheels_is_built_and_tested(tool):
    built = tool("build_wheels")
    jobs = read(ROOT / ".github" / "workflows" / "wheels.yml")["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["target"] == list(built.TARGETS)
    versions = jobs["linux"]["steps"][1]["with"]["python-version"].split()
    assert sorted(versions) == sorted(built.PYTHONS)
    assert jobs["suite"]["strategy"]["matrix"]["python"] == list(built.PYTHONS)


def test_the_table_of_wheels_is_what_was_recorded(tool):
    built = tool("build_wheels")
    rows = json.loads(built.RECORD.read_text(encoding="utf-8"))
    page = built.PAGE.read_text(encoding="utf-8")
    shown = page.partition(built.MARKS[0])[2].partition(built.MARKS[1])[0]
    assert shown.strip() == built.table(rows)
    pairs = [(row["target"], row["python"]) for row in rows]
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) <= {(target, python) for target in built.TARGETS for python in built.PYTHONS}
    for row in rows:
        assert ("run" in row) == ("tests" in row)
        old = row["glibc"] is None or tuple(map(int, row["glibc"].split("."))) <= (2, 17)
        assert old, row["wheel"]
        assert ("gnu" in row["target"]) == (row["glibc"] is not None)


def test_a_bill_names_what_is_compiled_in_and_every_file(tool, tmp_path):
    sbom = tool("sbom")
    (tmp_path / "dpoco-0.1.0-cp313-cp313-any.whl").write_bytes(b"wheel")
    out = tmp_path / "sbom"
    words = [str(tmp_path), "--output", str(out)]
    assert sbom.main([*words, "--tag", "v0.1.0"]) == 0
    first = (out / "dpoco.cdx.json").read_bytes()
    assert sbom.main(words) == 0
    assert (out / "dpoco.cdx.json").read_bytes() == first
    found = json.loads(first)
    names = [part["name"].split()[0] for part in found["components"]]
    assert names == [
        "Eigen", "pybind11", "libc++", "numpy", "scipy", "dpoco-0.1.0-cp313-cp313-any.whl",
    ]  # fmt: skip
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert all(name in notice for name in names[:3])
    with pytest.raises(SystemExit, match="not one"):
        sbom.main([*words, "--tag", "v9.0.0"])
    (tmp_path / "dpoco-9.0.0.tar.gz").write_bytes(b"other")
    with pytest.raises(SystemExit, match="not one"):
        sbom.main(words)


def test_the_lowest_versions_are_the_bounds(tool):
    found = tool("test_installed").lowest()
    assert {"numpy==1.26", "scipy==1.11.1", "pytest==8"} <= set(found)
    assert len({one.partition("==")[0] for one in found}) == len(found)
