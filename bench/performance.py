"""What costs what: the tables of docs/performance.md.

Usage: python bench/performance.py [--seconds 0.05] [--only live rounds] [--write]

CPU time of the process per round, medians of five repetitions; wall time for threads. Run it on an
idle machine: about a minute. Without --write the tables are printed only.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import journal_cases
import measurement
import numpy as np
from compare import THREADS
from numpy.typing import NDArray
from pages import machine_line, replace_table

import dpoco

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
FloatArray = NDArray[np.float64]
Maker = Callable[[], Any]
Play = Callable[[int], None]
BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-6)
PURE = dpoco.Budget(epsilon=1.0, delta=0.0)
HORIZON = 10**9
REPETITIONS = 5


def tree(d: int) -> Any:
    return dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(dimension=d, p=2.0, radius=1.0),
        dpoco.losses.LogisticLoss(feature_bound=1.0),
        horizon=HORIZON,
        budget=BUDGET,
    )


def leader(d: int) -> Any:
    return dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(dimension=d, p=2.0, radius=1.0),
        dpoco.losses.LogisticLoss(feature_bound=1.0),
        horizon=HORIZON,
        budget=BUDGET,
    )


def hedge(d: int) -> Any:
    return dpoco.experts.PrefixHedge(d, horizon=HORIZON, budget=BUDGET)


def tracker(d: int) -> Any:
    return dpoco.experts.ObliviousTracker(d, horizon=None, budget=PURE, share_rate=1e-4)


LEARNERS: list[tuple[str, Callable[[int], Any], bool]] = [
    ("TreeFrankWolfe", tree, True),
    ("NoisyFTRL", leader, True),
    ("PrefixHedge", hedge, False),
    ("ObliviousTracker", tracker, False),
]
SIZES = (10, 100, 1000)


def data(d: int, rounds: int, records: bool) -> tuple[FloatArray, ...]:
    generator = np.random.default_rng(d)
    if not records:
        return (generator.random((rounds, d)),)
    features = generator.standard_normal((rounds, d)) / d**0.5
    return features, (features[:, 0] > 0.0).astype(float)


def cost(action: Callable[[int], None], seconds: float) -> float:
    """Nanoseconds of CPU time per round; `action` plays the given number of rounds."""
    rounds = 64
    while True:  # as many rounds as fill the time
        start = time.process_time()
        action(rounds)
        spent = time.process_time() - start
        if spent > seconds / 4 or rounds > 10**8:
            break
        rounds *= 2
    found = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        action(rounds)
        found.append((time.process_time() - start) / rounds)
    return 1e9 * statistics.median(found)


def in_batches(learner: Any, parts: tuple[FloatArray, ...], size: int) -> Callable[[int], None]:
    def play(rounds: int) -> None:
        done = 0
        while done < rounds:
            count = min(size, rounds - done, len(parts[0]))
            learner.run(*(part[:count] for part in parts))
            done += count

    return play


def one_by_one(learner: Any, parts: tuple[FloatArray, ...]) -> Callable[[int], None]:
    rows = list(zip(parts[0], *(part.tolist() for part in parts[1:]), strict=True))

    def play(rounds: int) -> None:
        for index in range(rounds):
            learner.decide()
            learner.observe(*rows[index % len(rows)])

    return play


def per_round(seconds: float) -> Iterator[str]:
    yield "| learner | d | `decide` + `observe` | `run` of 10 | `run` of 100 | `run` of 8192 |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, make, records in LEARNERS:
        for d in SIZES:
            parts = data(d, 8192 if d < 1000 else 1024, records)
            actions = [one_by_one(make(d), parts)]
            actions += [in_batches(make(d), parts, size) for size in (10, 100, 8192)]
            cells = [f"{cost(action, seconds):,.0f}" for action in actions]
            yield f"| {name} | {d} | {' | '.join(cells)} |"


def live_rounds(d: int) -> dict[str, tuple[Play, Play | None]]:
    """What a service calls, and the same rounds in one compiled call."""
    features, labels = data(d, 8192, True)
    gradient, label = features[0] / np.linalg.norm(features[0]), float(labels[0])
    rewards = np.full((len(features), 5), label)
    found: dict[str, tuple[Play, Play | None]] = {}

    def enter(name: str, learner: Any, arrays: tuple[FloatArray, ...], play: Play) -> None:
        found[name] = play, in_batches(learner, arrays, len(features))

    def play_rounds(learner: Any) -> Play:
        def play(rounds: int) -> None:
            for _ in range(rounds):
                learner.decide()
                learner.observe(gradient, label)

        return play

    def play_bandit(learner: Any) -> Play:
        def play(rounds: int) -> None:
            for _ in range(rounds):
                learner.decide(gradient)
                learner.observe(label)

        return play

    newton = dpoco.oco.NoisyNewton(
        dpoco.domains.LpBall(d, p=2.0),
        dpoco.losses.LogisticLoss(1.0),
        horizon=HORIZON,
        budget=BUDGET,
    )
    for learner in (tree(d), leader(d), newton):
        name = f"`{type(learner).__name__}`: `decide`, `observe`"
        enter(name, learner, (features, labels), play_rounds(learner))
    total = dpoco.mechanisms.ContinualSum(d, horizon=HORIZON, budget=BUDGET, bound=1.0)
    enter("`ContinualSum`: `push`", total, (features,), lambda n: repeat(total.push, n, gradient))
    ball = dpoco.domains.LpBall(d, p=1.0)
    for bandit in (
        dpoco.bandits.LinUCB(
            5,
            d,
            horizon=HORIZON,
            budget=BUDGET,
            exploration=1.0,
            context_bound=1.0,
            reward_bound=1.0,
        ),
        dpoco.bandits.HighDimensionalBandit(
            5,
            ball,
            horizon=HORIZON,
            budget=BUDGET,
            arm_learner="tree",
            forced_rounds=0,
            context_bound=1.0,
            reward_bound=1.0,
        ),
    ):
        name = f"`{type(bandit).__name__}`, 5 arms: `decide`, `observe`"
        enter(name, bandit, (features, rewards), play_bandit(bandit))
    for keys in (1, 1000, 20_000):
        pool = dpoco.scale.KeyedPool(tree(d), max_keys=keys)
        pool.register(range(keys))
        order = np.random.default_rng(keys).integers(0, keys, 20_000).tolist()

        def time_keyed(rounds: int, pool: Any = pool, order: list[int] = order) -> None:
            for index in range(rounds):
                key = order[index % len(order)]
                pool.decide(key)
                pool.observe(key, gradient, label)

        named = "1 key" if keys == 1 else f"{keys:,} keys"
        found[f"`KeyedPool` of `TreeFrankWolfe`, {named}: `decide`, `observe`"] = time_keyed, None
    for size in (1, 16, 1000):
        pool = dpoco.scale.KeyedPool(tree(d), max_keys=1000)
        pool.register(range(1000))
        found[f"`KeyedPool` of `TreeFrankWolfe`, 1,000 keys: `process` of {size:,}"] = (
            in_batches(_Processed(pool, size), (features, labels), size),
            None,
        )
    return found


class _Processed:
    """A pool whose batches have the same keys again and again, called as a learner is."""

    def __init__(self, pool: Any, size: int) -> None:
        self._pool = pool
        self._keys = np.random.default_rng(size).integers(0, len(pool), size).tolist()

    def run(self, *parts: FloatArray) -> None:
        self._pool.process(self._keys[: len(parts[0])], *parts)


def repeat(call: Callable[..., Any], rounds: int, *arguments: Any) -> None:
    for _ in range(rounds):
        call(*arguments)


def live_calls(seconds: float) -> Iterator[str]:
    """All of them in turns, the least of seven: others may use the machine meanwhile."""
    yield "| call, d = 10 | a round | in `run` of 8192 |"
    yield "|---|--:|--:|"
    calls = live_rounds(10)
    rounds = max(4000, int(1e6 * seconds))
    spent = {name: [math.inf, math.inf] for name in calls}
    for _ in range(7):
        for name, plays in calls.items():
            for column, play in enumerate(plays):
                if play is not None:
                    start = time.process_time()
                    play(rounds)
                    own = 1e9 * (time.process_time() - start) / rounds
                    spent[name][column] = min(spent[name][column], own)
    for name, columns in spent.items():
        cells = (f"{value:,.0f}" if value < math.inf else "" for value in columns)
        yield f"| {name} | {' | '.join(cells)} |"


def beside(repetitions: int = 9) -> Iterator[str]:
    """Time ours and theirs in turns, and take the least: others may use the machine meanwhile."""
    import peers  # which needs Numba

    found = peers.peers()
    for _ in range(repetitions):
        for each in found:
            each.measure()
    ours = f"dpoco, {dpoco.random.instruction_set()}"
    yield f"| what | {ours} | other | by | other / {ours} | {ours} / its Gaussian noise |"
    yield "|---|--:|--:|---|--:|--:|"
    variate = found[0].least
    for each in found:
        cells = [each.name, figure(each.least), "", "", "", ""]
        if each.theirs is not None:
            ratio = f"{each.theirs_least / each.least:.2f}"
            cells[2:5] = [figure(each.theirs_least), each.against, ratio]
        if each.draws:
            cells[5] = f"{each.least / (each.draws * variate):.1f}"
        yield f"| {' | '.join(cells)} |"


def figure(value: float) -> str:
    return f"{value:.1f}" if value < 100.0 else f"{value:,.0f}"


_FIRST = """
import dpoco
budget = dpoco.Budget(epsilon=1.0, delta=1e-6)
pure = dpoco.Budget(epsilon=1.0, delta=0.0)
ball, loss = dpoco.domains.LpBall(10), dpoco.losses.LogisticLoss(1.0)
"""
STARTS = {
    "`import numpy`": "import numpy",
    "`import dpoco`": "import dpoco",
    "`EpochSelector`, first decision": _FIRST
    + "dpoco.experts.EpochSelector(10, horizon=10**5, budget=pure).decide()",
    "`ObliviousTracker`, first decision": _FIRST
    + "dpoco.experts.ObliviousTracker(10, horizon=10**5, switches=3, budget=pure).decide()",
    "`TreeFrankWolfe`, first decision": _FIRST
    + "dpoco.frank_wolfe.TreeFrankWolfe(ball, loss, horizon=10**5, budget=budget).decide()",
    "`NoisyFTRL`, first decision": _FIRST
    + "dpoco.oco.NoisyFTRL(ball, loss, horizon=10**5, budget=budget).decide()",
    "`PrefixHedge`, first decision": _FIRST
    + "dpoco.experts.PrefixHedge(10, horizon=10**5, budget=budget).decide()",
    "`CoupledRegularizedLeader`, first decision": _FIRST
    + "dpoco.oco.CoupledRegularizedLeader(ball, loss, horizon=10**5, budget=budget).decide()",
    "`dpoco plan epoch-selector`": ["epoch-selector", "--experts", "10"],
    "`dpoco plan noisy-ftrl`": ["noisy-ftrl", "--dimension", "10"],
    "`dpoco plan prefix-hedge`": ["prefix-hedge", "--experts", "10"],
}


def starts(repetitions: int = 7) -> Iterator[str]:
    """CPU time of whole processes, with compiled modules as an installation has them."""
    spent = dict.fromkeys(STARTS, math.inf)
    with tempfile.TemporaryDirectory() as folder:
        left = {name for name in os.environ if name in THREADS or name.startswith("PYTHON")}
        own = {name: value for name, value in os.environ.items() if name not in left}
        environment = own | {"PYTHONPYCACHEPREFIX": folder, "PYTHONWARNINGS": "ignore"}
        for _ in range(1 + repetitions):  # the first writes the compiled modules
            for name, what in STARTS.items():
                plan = ["-m", "dpoco", "plan", *what, "--horizon", "100000"]
                words = ["-c", what] if isinstance(what, str) else plan
                before = os.times()
                subprocess.run(
                    [sys.executable, *words], env=environment, check=True, capture_output=True
                )
                after = os.times()
                user = after.children_user - before.children_user
                system = after.children_system - before.children_system
                spent[name] = min(spent[name], user + system)
    yield "| process | CPU time, s |"
    yield "|---|--:|"
    for name, seconds in spent.items():
        yield f"| {name} | {seconds:.2f} |"


def in_threads(seconds: float) -> Iterator[str]:
    cores = min(os.cpu_count() or 1, 4)
    yield "| how | 1 thread | " + " | ".join(f"{n} threads" for n in range(2, cores + 1)) + " |"
    yield "|---|" + "--:|" * cores
    parts = data(100, 8192, True)
    for title, action in (
        ("TreeFrankWolfe.run, d = 100", lambda: in_batches(tree(100), parts, 8192)),
        ("decide + observe, d = 100", lambda: one_by_one(tree(100), parts)),
    ):
        players = [action() for _ in range(cores)]
        rounds = max(1024, int(seconds * 1e9 / cost(players[0], seconds)))
        best = dict.fromkeys(range(1, cores + 1), 0.0)
        # All numbers of threads in turns, each learner warm: the first repetition does not count.
        for repetition in range(1 + REPETITIONS):
            for threads in best:
                with ThreadPoolExecutor(threads) as pool:
                    start = time.perf_counter()
                    list(pool.map(lambda play: play(rounds), players[:threads]))  # noqa: B023
                    rate = threads * rounds / (time.perf_counter() - start)
                if repetition > 0:
                    best[threads] = max(best[threads], rate)
        cells = [f"{rate:,.0f} ({rate / best[1]:.2f})" for rate in best.values()]
        yield f"| {title} | {' | '.join(cells)} |"


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_memory() -> Iterator[str]:
    yield (
        "| learner | d | state, bytes | resident, kB | calibrate and make, ms "
        "| make from parameters, ms |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    kept = []
    for name, make, _ in LEARNERS:
        for d in SIZES:
            start = time.process_time()
            first = make(d)
            made = 1e3 * (time.process_time() - start)
            parameters = first.get_params() | {"plan": first.plan, "source": None}
            count = 500 if d < 1000 else 200
            [type(first)(**parameters) for _ in range(20)]
            gc.collect()
            before, start = resident(), time.process_time()
            many = [type(first)(**parameters) for _ in range(count)]
            spent = 1e3 * (time.process_time() - start) / count
            each = (resident() - before) / count / 1e3
            size = len(first._engine.state())
            yield f"| {name} | {d} | {size:,} | {each:.1f} | {made:.1f} | {spent:.2f} |"
            kept.append(many)  # or the next would take its memory


def with_journal() -> Iterator[str]:
    ours = dpoco.random.instruction_set()
    yield f"| learner, {ours} | a commit waits for | releases | called by | CPU time | time |"
    yield "|---|---|---|---|--:|--:|"
    found: dict[str, dict[str, float]] = {}
    for row in journal_cases.rows(pairs=7, shrink=1):
        case, _, clock = row.name.rpartition(", ")
        found.setdefault(case, {})[clock] = row.value
    for case, ratios in found.items():
        if "CPU time" in ratios:
            learner, durability, releases, call = case.rsplit(", ", 3)
            cells = [learner, f"the {durability}", releases, f"`{call}`"]
            cells += [f"{ratios[clock]:.2f}" for clock in ("CPU time", "time")]
            yield f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="The tables of docs/performance.md.")
    parser.add_argument("--seconds", type=float, default=0.05, help="of each measurement")
    parser.add_argument("--only", nargs="+", default=[], help="tables, all of them by default")
    parser.add_argument("--write", action="store_true", help="update the page")
    options = parser.parse_args()
    one = dict.fromkeys(THREADS, "1")  # libraries read it as they load; CPU time counts what waits
    if not one.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **one})
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    facts = measurement.machine_facts()
    tables = {
        "machine": iter([f"{machine_line(facts)} Load averages before: {load}."]),
        "memory": in_memory(),
        "live": live_calls(options.seconds),
        "peers": beside(),
        "starts": starts(),
        "rounds": per_round(options.seconds),
        "threads": in_threads(options.seconds),
        "journal": with_journal(),
    }
    page = PAGE.read_text(encoding="utf-8")
    for key, lines in tables.items():
        if options.only and key not in options.only:
            continue
        print(f"\n### {key}\n")
        text = []
        for line in lines:
            print(line, flush=True)
            text.append(line)
        page = replace_table(page, key, "\n".join(text))
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
