"""Play seven new users, each from an empty folder, and say when each has a first useful result.

Usage: python tools/walks.py dist/dpoco-*.whl            # installs the wheel in a fresh environment
       python tools/walks.py dist/dpoco-*.whl --json FILE --only lawyer
       python tools/walks.py --here                      # with the dpoco of this Python

Each walk is what such a user reads, types and gets, in the order of the pages. Exit code 1 if a
walk does not reach its result, or takes longer than its target.

Minutes of a person
-------------------
No person is timed. The minutes are those of a model, which counts

* the words of the pages up to the result at 200 a minute: the speed of careful reading; code,
  tables and commands on the pages are read like the rest;
* the characters typed at 200 a minute, which is 40 words of five letters. A line that is on a page
  read before is copied: no characters, but 5 seconds for each command or program with such lines;
* 10 seconds for each command, to read its answer;
* the processor time of the commands; on a machine that does nothing else they take no longer.

Not counted: the installation (`pip install "dpoco[all]"`, whose time is printed), and mistakes
other than those that the walks make on purpose, because the pages suggest them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS_PER_MINUTE = 200
CHARACTERS_PER_MINUTE = 200
SECONDS_TO_COPY = 5.0
SECONDS_TO_READ_AN_ANSWER = 10.0


@dataclass(frozen=True)
class Read:
    """A page, or parts of it.

    Attributes
    ----------
    page : str
        Its path in the repository.
    sections : tuple of str, optional
        Its headings of level two; ``""`` is the part above the first one.
    door : str, optional
        For the first page: the door that this user takes, ``**I want a model**``. Of the other
        doors the first lines are read.
    """

    page: str
    sections: tuple[str, ...] | None = None
    door: str = ""

    def text(self) -> str:
        """Return the text that is read."""
        text = (ROOT / self.page).read_text(encoding="utf-8")
        if self.door:
            head, *doors = re.split(r"^(?=\*\*I )", text.split("\n## ")[0], flags=re.MULTILINE)
            assert any(self.door in door for door in doors), self.door
            return head + "".join(
                door if self.door in door else f"{door.splitlines()[0]}\n" for door in doors
            )
        if self.sections is None:
            return text
        parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
        found = {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}
        return "\n".join(found[section] for section in self.sections)


@dataclass(frozen=True)
class Have:
    """A program that makes the files which the user has anyway: no time of theirs."""

    program: str


@dataclass(frozen=True)
class Type:
    """A command, or a program in Python that is typed into a file and run.

    Attributes
    ----------
    command : str
        What is typed into the shell; ``{name}`` is what an earlier answer gave.
    program : str
        The text of the file that is the last word of the command, if it is new.
    shows : str
        A pattern that must be in the answer. Its groups are kept by their names.
    code : int
        The exit code that must come.
    useful : bool
        The first useful result is the line in which `shows` is found.
    serves : bool
        The command goes on running; its answer is its first line.
    """

    command: str
    program: str = ""
    shows: str = ""
    code: int = 0
    useful: bool = False
    serves: bool = False


Step = Read | Have | Type


@dataclass(frozen=True)
class Walk:
    """A user, the minutes within which they want a result, and what they do."""

    name: str
    who: str
    target: float
    steps: tuple[Step, ...]


@dataclass
class Report:
    """Cost of a walk up to its first useful result."""

    name: str
    target: float
    words: int = 0
    commands: int = 0
    characters: int = 0
    copies: int = 0
    processor_seconds: float = 0.0
    waiting_seconds: float = 0.0
    result: str = ""
    page_lines: set[str] = field(default_factory=set)
    failure: str = ""

    @property
    def minutes(self) -> float:
        """Return the minutes of a person, by the model above."""
        seconds = (
            SECONDS_TO_COPY * self.copies
            + SECONDS_TO_READ_AN_ANSWER * self.commands
            + self.processor_seconds
        )
        typed = self.characters / CHARACTERS_PER_MINUTE
        return self.words / WORDS_PER_MINUTE + typed + seconds / 60.0

    def read(self, text: str) -> None:
        """Count the words of a page; its lines can be copied from now on."""
        self.words += len(text.split())
        self.page_lines |= {line.strip().removeprefix("$ ") for line in text.splitlines()}

    def type(self, text: str) -> None:
        """Count the characters of the lines that are on no page read before."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        typed = [line for line in lines if line not in self.page_lines]
        self.characters += sum(len(line) + 1 for line in typed)
        self.copies += len(typed) < len(lines)


NUMBERS = Read("README.md", door="I want current numbers")
MODEL = Read("README.md", door="I want a model")
ACTIONS = Read("README.md", door="I want a bandit")

HOURS = """\
import random

random.seed(1)
for hour in (1, 2, 3):
    with open(f"hour-{hour}.csv", "w") as file:
        print("time,sensor_id,fan,temperature,load,status", file=file)
        for row in range(4000):
            heat, load = random.gauss(20.0, 8.0), random.random()
            fan = random.choice(["low", "mid", "high"])
            fails = 0.08 * heat + 3.0 * load + (fan == "low") > 3.6
            cells = [f"2026-01-01T0{hour}:{row // 70:02d}", f"s{random.randrange(40)}", fan]
            cells += [f"{heat:.1f}", "NA" if random.random() < 0.05 else f"{load:.3f}"]
            print(*cells, "fail" if fails else "ok", sep=",", file=file)
"""

CSV = Walk(
    "hourly files",
    "has a CSV file every hour, with labels ok and fail, texts and gaps",
    5,
    (
        Have(HOURS),
        MODEL,
        Read("docs/five_minutes.md", ("", "1. Ask what is missing")),
        Type("dpoco run hour-1.csv", shows="--label COLUMN", code=2),
        Type(
            "dpoco run hour-1.csv --label status --positive fail"
            " --features fan,temperature,load --set categories=fan=low,mid,high"
            " --range temperature=-20:60 --range load=0:1 --set missing=load=0.5"
            " --horizon 100000 --checkpoint learner.state --decision model.json",
            shows=r"private +0\.\d+ +(?P<error>[\d.]+)%",
            useful=True,
        ),
        Read("docs/five_minutes.md", ("3. Predict", "4. Go on, hour by hour")),
        Type("dpoco predict model.json hour-3.csv --keep time,sensor_id --to predictions.csv"),
        Type(
            "dpoco run hour-2.csv --checkpoint learner.state --resume --decision model.json",
            shows="continued after round 4,000",
        ),
        Type("dpoco verify model.json", shows=r"model\.json: verified"),
    ),
)

OWN = """\
import numpy as np

import dpoco
from dpoco import evaluation, plotting
from dpoco.audit import check_learner

rng = np.random.default_rng(0)
features = rng.normal(size=(2000, 5))
features /= np.linalg.norm(features, axis=1, keepdims=True)
classes = (features @ [0.5, -0.5, 0.0, 0.0, 0.3] > 0.0).astype(float)
hinge = dpoco.losses.GlmLoss.from_functions(
    lambda t: np.where(t < 0.5, 0.75 - t, np.maximum(1.0 - t, 0.0) ** 2),
    lambda t: -np.minimum(2.0 * np.maximum(1.0 - t, 0.0), 1.0),
    variable="margin",  # y f(z) + (1 - y) f(-z), y in [0, 1]
    feature_bound=1.0,
)
large = dpoco.domains.LpBall(5, p=2.0, radius=4.0)
print(len(check_learner(NoisyGradientDescent)), "checks passed")


def descent(budget, source):
    return NoisyGradientDescent(large, hinge, horizon=2000, budget=budget, source=source)


def newton(budget, source):
    return dpoco.oco.NoisyNewton(large, hinge, horizon=2000, budget=budget, source=source)


comparison = evaluation.compare(
    {"DP-OGD": descent, "NoisyNewton": newton},
    (features, classes),
    budgets=[dpoco.Budget(1.0, 1e-6), dpoco.Budget(8.0, 1e-6), None],
    comparator=evaluation.best_fixed_decision(large, hinge, features, classes),
    repeats=20,
    seed=1,
)
print(comparison.to_table("regret", form="latex"))
axes = plotting.plot_regret(comparison)
axes.figure.savefig("regret.pdf")
"""


def first_program(page: str) -> str:
    """Return the first block of Python on a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


RESEARCHER = Walk(
    "researcher",
    "has an own learner and an own loss, and wants a table and a figure for a paper",
    15,
    (
        MODEL,
        Read("docs/own_learner.md", ("", "A learner in 40 lines", "A comparison", "Your own loss")),
        Read("docs/recipes/paper.md"),
        Type(
            "python paper.py",
            program=first_program("docs/own_learner.md") + OWN,
            shows=r"NoisyNewton & \$\\mathbf.*",
            useful=True,
        ),
    ),
)

SKLEARN = """\
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from dpoco.adapters.sklearn import PrivateOnlineClassifier

rng = np.random.default_rng(0)
n = 30_000
income, age = np.exp(rng.normal(8.0, 1.0, n)), rng.uniform(18, 80, n)
city = rng.choice(["Oslo", "Rome", "Bern"], n)
raw = np.array([income, age, city], dtype=object).T
kind = np.where(age > 55, "late", np.where(np.log(income) + (city == "Rome") > 8.3, "rich", "rest"))
encoder = make_column_transformer(
    (OneHotEncoder(categories=[["Oslo", "Rome", "Bern"]], handle_unknown="ignore"), [2]),
    remainder="passthrough",
    sparse_threshold=0.0,
)
model = make_pipeline(
    encoder,
    PrivateOnlineClassifier(
        epsilon=2.0, delta=1e-6, classes=("late", "rest", "rich"), ranges="private", random_state=0
    ),
)
model.fit(raw, kind)
print(f"accuracy {model.score(raw, kind):.2f}, of the largest class {np.mean(kind == 'rest'):.2f}")
print(model[-1].guarantee_)
"""

SCIKIT = Walk(
    "scikit-learn",
    "has three classes, categories and numbers without known ranges, in a pipeline",
    10,
    (
        MODEL,
        Read("docs/recipes/coming_from.md", ("", "From scikit-learn")),
        Read("docs/guide/ranges.md", ("",)),
        Read("docs/adapters.md", ("Several classes",)),
        Type(
            "python classify.py",
            program=SKLEARN,
            shows=r"accuracy 0\.[5-9]\d, of the largest class 0\.\d+",
            useful=True,
        ),
    ),
)

BANDIT = """\
[bandit]
arms = 3
dimension = 8              # numbers in a context
horizon = 1_000_000        # decisions that the service ever makes
epsilon = 4.0              # for all rounds of one user together
delta = 1e-6
rounds_per_person = 20     # further visits of a user teach nothing
context_bound = 1.0        # contexts are clipped to this l2 norm
reward_bound = 1.0         # rewards are clipped to [-1, 1]
feedback_seconds = 60      # from a decision to the turn of its ticket

[store]
folder = "data"            # journal and waiting tickets, encrypted
mark = "elsewhere/mark"    # better: on another disk
"""

VISIT = """\
import json
from urllib.request import Request, urlopen

headers = {{"Authorization": "Bearer {token}", "Content-Type": "application/json"}}


def call(page, record=None):
    body = None if record is None else json.dumps(record).encode()
    with urlopen(Request(f"{url}/{{page}}", body, headers)) as answer:
        return json.loads(answer.read())


visit = {{"user": "ann", "context": [0.1] + [0.2] * 7, "request": "visit 1"}}
answer = call("decisions", visit)
print("arm", answer["arm"])
print(call("rewards", {{"ticket": answer["ticket"], "reward": 1.0}}))
"""

SERVICE = Walk(
    "bandit service",
    "wants to choose an offer for each visit, over HTTP",
    10,
    (
        ACTIONS,
        Read("docs/bandit_service.md", ("", "Start", "Who may ask")),
        Type("tee bandit.toml", program=BANDIT),
        Type(
            "dpoco serve bandit.toml --new-token shop --operator",
            shows=r"^(?P<token>\S+)$",
        ),
        Type("dpoco serve bandit.toml --port 0", serves=True, shows=r"(?P<url>http://\S+)"),
        Type("python visit.py", program=VISIT, shows=r"arm [012]", useful=True),
    ),
)

SIGNED = """\
import dpoco
from dpoco.accounting.signatures import SignedCertificate, SigningKey

ball, loss = dpoco.domains.LpBall(5, 2.0, 1.0), dpoco.losses.SquaredLoss(1.0, 1.0)
budget = dpoco.Budget(1.0, 1e-6)
key = SigningKey.create("signer.key")
open("signer.public", "w").write(str(key.public))
for name, source in (("good", None), ("void", dpoco.random.Source.seeded(1))):
    learner = dpoco.oco.NoisyFTRL(ball, loss, horizon=10_000, budget=budget, source=source)
    signed = SignedCertificate.sign(learner.guarantee.to_dict(), key, title="Energy model",
                                    operator="Shop Ltd", data_set="meter readings of 2026")
    open(f"{name}.json", "w").write(signed.to_json())
"""

LAWYER = Walk(
    "lawyer",
    "got a certificate by mail and must say whether anybody is protected",
    1,
    (
        Have(SIGNED),
        Read("docs/recipes/officer.md", ("What the officer does",)),
        Type(
            "dpoco verify good.json --signer signer.public",
            shows=r"good\.json: .*verified.*",
            useful=True,
        ),
        Type("dpoco verify void.json", shows="NOT PROTECTED", code=6),
        Type("dpoco explain good.json", shows="What is protected"),
    ),
)

LOG = """\
import random

random.seed(1)
with open("log.csv", "w") as file:
    print("at,page,latency,failed", file=file)
    for hour in range(24):
        for _ in range(2000):
            page, failed = random.choice("abcd"), random.random() < 0.03
            cells = f"2026-01-01T{hour:02d}:30", page, random.gammavariate(2, 60), int(failed)
            print(*cells, sep=",", file=file)
"""

HOURLY = """\
import pandas as pd

import dpoco
from dpoco.statistics import Count, Last, Mean, Monitor, Share

monitor = Monitor(
    {
        "visits": Count(),
        "latency": Mean(0.0, 1000.0),
        "failed": Share(),
    },
    every="1h",
    releases=24 * 365,
    start="2026-01-01T00:00",
    budget=dpoco.Budget(epsilon=1.0, delta=1e-6),
    views=["interval", Last(24)],
)
log = pd.read_csv("log.csv")
releases = monitor.add_many(log, time="at")
print(releases[-1])
"""

DASHBOARD = Walk(
    "dashboard",
    "knows diffprivlib, and wants counts and means by the hour, later a logistic regression",
    5,
    (
        Have(LOG),
        NUMBERS,
        Read("docs/guide/statistics.md", ("",)),
        Type("python hourly.py", program=HOURLY, shows=r"interval: visits.*", useful=True),
        Read("docs/guide/statistics.md", ("From the command line",)),
        Type(
            "dpoco monitor log.csv --time at --count --mean latency=0:1000 --share failed"
            " --by page=a,b,c,d --output site.jsonl --page site.html"
        ),
        Type("tail -1 site.jsonl", shows='"statistic": "count"'),
        Read("docs/recipes/coming_from.md", ("From diffprivlib",)),
        Type(
            "dpoco run log.csv --label failed --features latency --range latency=0:1000",
            shows=r"private +0\.\d+",
        ),
    ),
)

STREAM = """\
import numpy as np

import dpoco
import dpoco.journal

scaling = dpoco.datasets.PublicScaling([0.0], [1000.0])


def make():
    return dpoco.oco.NoisyNewton(
        dpoco.domains.LpBall(2, p=2.0, radius=4.0),
        dpoco.losses.LogisticLoss(feature_bound=2**0.5),
        horizon=100_000,
        budget=dpoco.Budget(epsilon=1.0, delta=1e-6),
    )


for _ in range(2):
    with dpoco.journal.Journal("model.db") as journal:
        stream = journal.open("model", make)
        first = 0
        for part in dpoco.datasets.chunks("out.parquet", label="failed", scaling=scaling):
            decisions = stream.process(part.features, part.labels, first_round=first)
            first += part.rounds
        print(stream.round, "rounds; newest decision", stream.decide())
"""

SPARK = """\
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet

rng = np.random.default_rng(1)
os.mkdir("out.parquet")
open("out.parquet/_SUCCESS", "w").close()
for part in range(3):
    columns = {"latency": rng.gamma(2.0, 60.0, 2000), "failed": rng.integers(0, 2, 2000)}
    pa.parquet.write_table(pa.table(columns), f"out.parquet/part-{part}.parquet")
"""

QUEUE = Walk(
    "queue",
    "has Kafka and what Spark writes, and must survive crashes",
    15,
    (
        Have(SPARK),
        MODEL,
        Read("docs/recipes/queue.md"),
        Read("docs/journal.md", ("", "Micro-batches")),
        Type(
            "python learn.py",
            program=STREAM,
            shows=r"6000 rounds; newest decision .*\n6000 rounds",
            useful=True,
        ),
    ),
)

WALKS = (CSV, RESEARCHER, SCIKIT, SERVICE, LAWYER, DASHBOARD, QUEUE)


class Player:
    """Plays a walk in a folder, with a Python that has dpoco."""

    def __init__(self, walk: Walk, folder: Path, python: str) -> None:
        self.walk, self.folder, self.python = walk, folder, python
        self.report = Report(walk.name, walk.target)
        self.names: dict[str, str] = {}
        self.services: list[subprocess.Popen[str]] = []

    def play(self) -> Report:
        """Play all steps; count up to the first useful result."""
        counting = self.report
        try:
            for step in self.walk.steps:
                if isinstance(step, Read):
                    self.report.read(step.text())
                elif isinstance(step, Have):
                    self._run([self.python, "-c", step.program])
                else:
                    self._type(step)
                    if step.useful:
                        self.report = Report(self.walk.name, self.walk.target)
        except AssertionError as error:
            counting.failure = str(error)
        finally:
            for service in self.services:
                service.terminate()
                service.communicate()
        return counting

    def _type(self, step: Type) -> None:
        program = step.program.format(**self.names) if self.names else step.program
        command = step.command.format(**self.names)
        words = shlex.split(command)
        if program:
            file = self.folder / words[-1]
            file.write_text(program, encoding="utf-8")
        first = {"dpoco": [self.python, "-m", "dpoco"], "python": [self.python]}
        words = [*first.get(words[0], [words[0]]), *words[1:]]
        self.report.commands += 1
        self.report.type(f"{command}\n{program}")
        if step.serves:
            answer, code = self._serve(words), 0
        elif words[0] == "tee":  # an editor
            answer, code = program, 0
        else:
            answer, code = self._run(words)
        found = re.search(step.shows, answer, re.MULTILINE)
        said = f"{command}: exit code {code}\n{answer}"
        assert code == step.code, said
        assert found is not None, said
        self.names |= {name: text for name, text in found.groupdict().items() if text}
        if step.useful:
            self.report.result = " ".join(found[0].splitlines()[0].split())[:100]

    def _run(self, words: list[str]) -> tuple[str, int]:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(
            words, cwd=self.folder, env=environment(), capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.report.processor_seconds += after.ru_utime - before.ru_utime
        self.report.processor_seconds += after.ru_stime - before.ru_stime
        self.report.waiting_seconds += time.monotonic() - begun
        return done.stdout + done.stderr, done.returncode

    def _serve(self, words: list[str]) -> str:
        service = subprocess.Popen(
            words, cwd=self.folder, env=environment(), stdout=subprocess.PIPE, text=True
        )
        self.services.append(service)
        assert service.stdout is not None
        return service.stdout.readline()


def environment() -> dict[str, str]:
    """Return the variables of a shell whose only dpoco is the one of its Python."""
    return {**os.environ, "COLUMNS": "100", "MPLBACKEND": "agg", "OPENBLAS_NUM_THREADS": "1"}


def install(wheel: Path, folder: Path) -> tuple[str, float]:
    """Return the Python of a fresh environment with a wheel, and the seconds that it took."""
    begun = time.monotonic()
    venv.create(folder, with_pip=True)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"{wheel.resolve()}[all]"], check=True)
    os.environ.pop("PYTHONPATH", None)
    return python, time.monotonic() - begun


def print_table(reports: list[Report]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| user | minutes | target | words read | commands | characters typed | processor time |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for each in reports:
        yield (
            f"| {each.name} | {each.minutes:.1f} | {each.target:g} | {each.words} "
            f"| {each.commands} | {each.characters} | {each.processor_seconds:.1f} s |"
        )


def main(arguments: list[str]) -> int:
    """Play the walks, print a table and the results."""
    parser = argparse.ArgumentParser(description="Seven new users, from an empty folder.")
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--here", action="store_true", help="use the dpoco of this Python")
    parser.add_argument("--only", action="append", help="name of a walk; repeatable")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    options = parser.parse_args(arguments)
    if options.here == (options.wheel is not None):
        parser.error("name a wheel, or --here")
    with tempfile.TemporaryDirectory() as place:
        python, seconds = sys.executable, 0.0
        if options.wheel is not None:
            python, seconds = install(options.wheel, Path(place, "venv"))
            print(f"installed in {seconds:.0f} s")
        reports = []
        for number, walk in enumerate(WALKS):
            if options.only and walk.name not in options.only:
                continue
            folder = Path(place, f"walk {number}")
            folder.mkdir()
            reports.append(Player(walk, folder, python).play())
            print(f"{walk.name}: {reports[-1].result or reports[-1].failure}", flush=True)
    print(*print_table(reports), sep="\n")
    if options.json:
        kept = [
            {**vars(each), "minutes": each.minutes, "page_lines": len(each.page_lines)}
            for each in reports
        ]
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    late = [each for each in reports if each.failure or each.minutes > each.target]
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
