"""People reach a useful result from an empty directory, with the installed package alone.

The engineer follows ``docs/five_minutes.md``, the researcher ``docs/own_learner.md``; the backend
developer copies an example and tries it as its page says; the estimator user has pipelines of
scikit-learn and river; the lawyer has a file and three commands; the newcomer knows another
library; the owner of a stream wants a dashboard. Run with ``-s`` to see how long each path took.
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

import dpoco

MINUTES = {
    "engineer": 5.0, "researcher": 10.0, "backend": 15.0, "estimator": 2.0, "lawyer": 1.0,
    "newcomer": 5.0, "owner": 5.0,
}  # fmt: skip


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
    own = getattr(request.node, "callspec", None)
    named = request.node.name.removeprefix("test_the_").partition("_")[0]
    name = named if own is None else own.params["reader"]
    seconds = time.monotonic() - started
    print(f"\n{name}: {seconds:.1f} s of {MINUTES[name]:g} min")
    assert seconds < 60.0 * MINUTES[name]


def test_the_researcher_brings_a_learner_and_a_loss(run, tmp_path):
    """Over a second: a process that plays the whole page."""
    pytest.importorskip("matplotlib")
    page = (ROOT / "docs" / "own_learner.md").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text("\n".join(each.code for each in snippets(page)))
    assert run("mine.py") == "".join(each.shown or "" for each in snippets(page))
    assert b"<svg" in (tmp_path / "own_learner.svg").read_bytes()
    verdict = run("-m", "dpoco", "verify", "guarantee.json", code=5)
    assert verdict.startswith("guarantee.json: only if ")
    assert "PROMISED, not enforced" in run("-m", "dpoco", "explain", "guarantee.json")


def test_the_backend_developer_kills_a_service_and_it_goes_on(run, tmp_path):
    """Over a second: a service that is started twice."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("tomllib")  # Python 3.11
    shutil.copy(ROOT / "examples" / "bandit.toml", tmp_path)
    page = (ROOT / "docs" / "bandit_service.md").read_text(encoding="utf-8")
    program = snippets(page)[0]
    (tmp_path / "try_it.py").write_text(program.code)
    assert run("try_it.py") == program.shown
    verdict = run("-m", "dpoco", "verify", "guarantee.json")
    assert re.match(r"guarantee.json: verified \(epsilon 4 at delta 1e-06\)", verdict)
    plain = run("-m", "dpoco", "explain", "guarantee.json")
    assert "20 " in plain
    assert (tmp_path / "data" / "service.db").stat().st_mode & 0o777 == 0o600


def test_the_lawyer_reads_a_page_and_checks_the_numbers(run, tmp_path):
    """Over a second: every command is a process of its own."""
    planned = run(
        "-m", "dpoco", "plan", "noisy-ftrl", "--horizon", 10**5, "--dimension", 10, "--json"
    )
    record = json.loads(planned)["guarantee"]
    path = tmp_path / "guarantee.json"
    path.write_text(json.dumps(record))
    assert "verified (epsilon 1 at delta" in run("-m", "dpoco", "verify", path)
    page = run("-m", "dpoco", "explain", path, "--people", 5000)
    learned, must = "What an attacker could still learn", "What the operator must do"
    for question in ("What is protected", "Who is protected", learned, must, "What is not covered"):
        assert f"{question}\n" in page
    assert "100000 rounds" in page
    assert "WARNING" not in page
    few = run("-m", "dpoco", "explain", path, "--people", 10**9)
    assert "WARNING" in few
    assert "the number of people" in few
    path.write_text(json.dumps({**record, "epsilon": 0.5}))
    assert "refuted" in run("-m", "dpoco", "verify", path, code=1)
    proof = re.search(r"Proof: .*?(docs/privacy/\w+\.md)", page, re.DOTALL)
    assert proof is not None
    assert (ROOT / proof[1]).is_file()


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
    predict = ("-m", "dpoco", "predict", "newest.json", "hour-3.csv")
    assert run(*predict, code=2) == ""
    again = ("--label", "alarm", "--range", "temperature=-20:50", "--range", "load=0:1")
    assert run("-m", "dpoco", "run", "hour-1.csv", *again, code=2) == ""  # keeps the first report


SCIKIT_LEARN = """
import numpy as np
from dpoco.adapters.sklearn import PrivateOnlineClassifier, PublicScaler
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

rng = np.random.default_rng(0)
X = rng.uniform([18, 0], [90, 50], size=(20_000, 2))  # years, visits
y = X[:, 0] / 90 + X[:, 1] / 50 > 1.1
model = PrivateOnlineClassifier(
    epsilon=1, delta=1e-6, classes=(False, True), feature_bound=1.0, horizon=1e5)
pipeline = clone(make_pipeline(PublicScaler([(0, 120), (0, 60)]), model))
pipeline.fit(X[:15_000], y[:15_000])
scaler, model = pipeline[0], pipeline[-1]
model.partial_fit(scaler.transform(X[15_000:18_000]), y[15_000:18_000])
odds = pipeline.predict_proba(X[18_000:])
print(round(float(((odds[:, 1] > 0.5) == y[18_000:]).mean()), 3), model.learner_.round)
with open("guarantee.json", "w") as file:
    file.write(model.guarantee_.to_json())
"""
RIVER = """
import random
from dpoco.adapters.river import PrivateClassifier, PublicScaler
from river import metrics

random.seed(0)
model = PublicScaler({"age": (0, 120), "visits": (0, 60)}) | PrivateClassifier(
    ("age", "visits"), horizon=1e4, epsilon=1, delta=1e-6, feature_bound=1.0)
accuracy = metrics.Accuracy()
for t in range(8000):
    x = {"age": random.uniform(18, 90), "visits": random.uniform(0, 50)}
    y = x["age"] / 90 + x["visits"] / 50 > 1.1
    if t >= 6000:
        accuracy.update(y, model.predict_one(x))
    model.learn_one(x, y)
print(accuracy.get(), round(model["PrivateClassifier"].guarantee.epsilon, 3))
"""


def test_the_estimator_user_swaps_a_line_in_a_pipeline(run, tmp_path):
    """Over a second: three processes, which import scikit-learn and river."""
    pytest.importorskip("sklearn")
    pytest.importorskip("river")
    (tmp_path / "batch.py").write_text(SCIKIT_LEARN)
    (tmp_path / "stream.py").write_text(RIVER)
    accuracy, rounds = run("-W", "error", "batch.py").split()
    assert float(accuracy) > 0.9  # of fresh noise: 0.966, and 0.007 more or less
    assert int(rounds) == 18_000
    assert "verified (epsilon 1 at delta" in run("-m", "dpoco", "verify", "guarantee.json")
    accuracy, epsilon = run("-W", "error", "stream.py").split()
    assert float(accuracy) > 0.85  # 0.957, and 0.01 more or less
    assert float(epsilon) == 1.0


MISTAKES = """
import dpoco
from dpoco import _core
from dpoco.experts import PrefixHedge
from dpoco.oco import NoisyFTRL
from dpoco.privacy.mechanisms.selections import ThresholdTests

ball, loss = dpoco.domains.LpBall(3, 2.0, 1.0), dpoco.losses.SquaredLoss(1.0, 1.0)
budget = dpoco.Budget(1.0, 1e-6)
learner = NoisyFTRL(ball, loss, horizon=100, budget=budget)
theta, ticket = learner.decide(ticket=True)
learner.observe([0.1, 0.2, 0.3], 0.5, ticket=ticket)
shape: tuple[int, ...] = learner.decide().shape
expert: int = PrefixHedge(3, horizon=100, budget=budget).decide()
back: NoisyFTRL = dpoco.load("state", NoisyFTRL)
wrong: str = learner.decide()  # assignment
word: str = PrefixHedge(3, horizon=100, budget=budget).decide()  # assignment
hedge: PrefixHedge = dpoco.load("state", NoisyFTRL)  # assignment
dpoco.Budget("1", 1e-6)  # arg-type
dpoco.Bugdet(1.0, 1e-6)  # attr-defined
dpoco.accounting.nosy_ftrl  # attr-defined
dpoco.local.LocalCleint  # attr-defined
NoisyFTRL(ball, loss, horizon=100, budget=budget, statistics="quadratc")  # arg-type
dpoco.mechanisms.ContinualSum(3, horizon=9, budget=budget, bound=1.0, relation="swap")  # arg-type
NoisyFTRL(ball, loss, horizon=100, budget=budget, seed=1)  # call-arg
claim: _core.Claim = {"key": b"", "stream": 1}
tests = ThresholdTests("laplace", 1.0, 1.0, 1.0, 2.0, 1)
_core.AboveThreshold(tests, 9, claim)
_core.AboveThreshold(tests, 9, {"key": b""})  # typeddict-item
_core.AboveThreshold(tests, 9, {**claim, "horizn": 9})  # typeddict-unknown-key
learner.desice()  # attr-defined
"""


def test_a_type_checker_reports_exactly_the_mistakes(tmp_path):
    """Over a second: mypy reads the package, and NumPy, without a cache."""
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(MISTAKES)
    # Adapters name libraries whose thousands of modules no line of MISTAKES asks about.
    others = ",".join(f"{name}.*" for name in ("torch", "river", "polars", "pandas", "sklearn",
                                               "scipy", "rich", "matplotlib"))  # fmt: skip
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\n[mypy-{others}]\nfollow_imports = skip\n"
    )
    command = [sys.executable, "-m", "mypy", "mine.py", "--cache-dir", "cache"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.findall(r"^mine.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.M)
    lines = enumerate(MISTAKES.splitlines(), 1)
    assert found == [(str(n), text.split("# ")[1]) for n, text in lines if "  # " in text]


def test_another_type_checker_reports_the_same_lines(tmp_path):
    """Over a second: pyright reads the package, in a process of Node.js."""
    pytest.importorskip("basedpyright", reason="pyright as a package of its own: the extra lint")
    (tmp_path / "mine.py").write_text(MISTAKES)
    home = str(Path(dpoco.__file__).parents[1])
    settings = {"typeCheckingMode": "standard", "extraPaths": [home], "include": ["mine.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    given = json.loads(done.stdout)["generalDiagnostics"]
    found = [each["range"]["start"]["line"] + 1 for each in given if each["severity"] == "error"]
    lines = enumerate(MISTAKES.splitlines(), 1)
    assert found == [number for number, text in lines if "  # " in text]


@pytest.mark.parametrize(
    ("reader", "page"), [("newcomer", "recipes/coming_from.md"), ("owner", "guide/statistics.md")]
)
def test_the_reader_of_a_page_sees_what_it_shows(run, tmp_path, reader, page):
    """Over a second: a process that plays a whole page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text("\n".join(each.code for each in snippets(text)))
    assert run("mine.py") == "".join(each.shown or "" for each in snippets(text))
