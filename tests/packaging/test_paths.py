"""People reach a useful result from an empty directory, with the installed package alone.

The engineer follows ``docs/five_minutes.md``, the researcher ``docs/own_learner.md``; the backend
developer copies an example and tries it as its page says; the lawyer has a file and three commands.
Run with ``-s`` to see how long each path took.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, snippets

MINUTES = {"engineer": 5.0, "researcher": 10.0, "backend": 15.0, "lawyer": 1.0}


@pytest.fixture
def run(tmp_path, request):
    """Run programs in an empty directory, isolated from the repository; time them in all."""
    started = time.monotonic()

    def program(*words, code=0):
        command = [sys.executable, "-I", *map(str, words)]
        answer = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert answer.returncode == code, answer.stderr
        return answer.stdout

    assert not any(tmp_path.iterdir())
    yield program
    name = request.node.name.removeprefix("test_the_").partition("_")[0]
    seconds = time.monotonic() - started
    print(f"\n{name}: {seconds:.1f} s of {MINUTES[name]:g} min")
    assert seconds < 60.0 * MINUTES[name]


def test_the_researcher_brings_a_learner_and_a_loss(run, tmp_path):
    """Over a second: a process that plays the whole page."""
    pytest.importorskip("matplotlib")
    page = (ROOT / "docs" / "own_learner.md").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text("\n".join(each.code for each in snippets(page)))
    assert run("mine.py") == "".join(each.shown or "" for each in snippets(page))
    assert (tmp_path / "own_learner.png").read_bytes().startswith(b"\x89PNG")
    verdict = run("-m", "dpoco", "verify", "guarantee.json")
    assert re.match(r"guarantee.json: verified \(epsilon 1 at delta 1e-06\)", verdict)
    assert "PROMISED, not enforced" in run("-m", "dpoco", "explain", "guarantee.json", "--plain")


def test_the_backend_developer_kills_a_service_and_it_goes_on(run, tmp_path):
    """Over a second: a service that is started twice."""
    shutil.copy(ROOT / "examples" / "bandit_service.py", tmp_path)
    page = (ROOT / "docs" / "bandit_service.md").read_text(encoding="utf-8")
    program = snippets(page)[0]
    (tmp_path / "try_it.py").write_text(program.code)
    assert run("try_it.py") == program.shown
    verdict = run("-m", "dpoco", "verify", "guarantee.json")
    assert re.match(r"guarantee.json: verified \(epsilon 4 at delta 1e-06\)", verdict)
    plain = run("-m", "dpoco", "explain", "guarantee.json", "--plain")
    assert "20 " in plain
    assert (tmp_path / "data" / "waiting.db").stat().st_mode & 0o777 == 0o600


def test_the_lawyer_reads_a_page_and_checks_the_numbers(run, tmp_path):
    """Over a second: every command is a process of its own."""
    planned = run(
        "-m", "dpoco", "plan", "noisy-ftrl", "--horizon", 10**5, "--dimension", 10, "--json"
    )
    record = json.loads(planned)["guarantee"]
    path = tmp_path / "guarantee.json"
    path.write_text(json.dumps(record))
    assert "verified (epsilon 1 at delta" in run("-m", "dpoco", "verify", path)
    page = run("-m", "dpoco", "explain", path, "--plain", "--people", 5000)
    learned, must = "What an attacker could still learn", "What the operator must do"
    for question in ("What is protected", "For whom", learned, must, "What is not covered"):
        assert f"{question}\n" in page
    assert "100000 rounds" in page
    assert "WARNING" not in page
    few = run("-m", "dpoco", "explain", path, "--plain", "--people", 10**9)
    assert "WARNING" in few
    assert "the number of people" in few
    path.write_text(json.dumps({**record, "epsilon": 0.5}))
    assert "refuted" in run("-m", "dpoco", "verify", path, code=1)
    assert Path(page.partition("Proof: ")[2].split()[-1].rstrip(".")).suffix == ".md"


def test_the_engineer_has_files_that_come_by_the_hour(run, tmp_path):
    """Over a second: every command is a process of its own."""
    pytest.importorskip("matplotlib")
    page = (ROOT / "docs" / "five_minutes.md").read_text(encoding="utf-8")
    (tmp_path / "make.py").write_text("\n".join(each.code for each in snippets(page)))
    run("make.py")
    blocks = re.findall(r"(<!-- asks -->\n)?```bash\n(.*?)```", page, re.DOTALL)
    for asks, block in blocks:
        for line in block.splitlines():
            run("-m", *shlex.split(line), code=2 if asks else 0)
    first, newest = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("model", "newest"))
    assert first["decision"] == newest["decision"]
    assert newest["round"] == 4000
    assert "verified" in run("-m", "dpoco", "verify", "newest.json")
    (tmp_path / "newest.json").write_text(json.dumps({**newest, "decision": [0.0] * 4}))
    predict = ("-m", "dpoco", "predict", "newest.json", "--data", "hour-3.csv")
    assert run(*predict, code=2) == ""
    again = ("--label", "alarm", "--range", "temperature=-20:50", "--range", "load=0:1")
    assert run("-m", "dpoco", "run", "hour-1.csv", *again, code=2) == ""  # keeps the first report
