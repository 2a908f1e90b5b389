"""Compare the guarantees and releases of several hundred configurations with a committed file.

    python check/golden.py                         # compare with tests/pins/golden.json
    python check/golden.py --exact                 # to the last bit, and also the releases
    python -m tests.pins --write golden            # after a change that is meant
    python check/golden.py --guarantees FILE       # write the guarantees, for check.py

A redesign changes no line. A change that is meant commits the new file, and CHANGELOG.md says under
**Privacy** which lines moved and why. Calibration goes through SciPy and the platform's libm, whose
last digits differ between machines: numbers are compared to a relative 1e-9, or their logarithms if
they are small, unless ``--exact`` is given, and hashes of releases, which depend on all digits,
only with it.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
import json
import math
import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.delayed import families  # noqa: E402
from tests.pins import files  # noqa: E402

import dpoco  # noqa: E402
from dpoco import Budget, Participation, bandits, experts, mechanisms, oco  # noqa: E402
from dpoco import frank_wolfe as fw  # noqa: E402
from dpoco.domains import Box, LpBall, Simplex, VertexSet  # noqa: E402
from dpoco.losses import (  # noqa: E402
    CustomLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    QuadraticLoss,
    SquaredLoss,
)
from dpoco.random import Source  # noqa: E402

HORIZONS = (37, 1000, 10**6)
BUDGETS = (Budget(0.5, 1e-8), Budget(4.0, 1e-6))
CLOSE = 1e-9
Case = tuple[Any, tuple[Any, ...], dict[str, Any]]


def streams(horizon: int | None, budget: Budget) -> Iterator[Case]:
    """Yield learners of one stream."""
    log, sq, lin = LogisticLoss(1.0), SquaredLoss(1.0, 1.0), LinearLoss(1.0)
    custom, quadratic = CustomLoss(lipschitz=2.0, smoothness=1.0), QuadraticLoss(3.0, 1.0)
    common = {"horizon": horizon, "budget": budget}
    for relation in ("replace", "zero_out"):
        both = {**common, "relation": relation}
        for loss in (log, sq, lin):
            yield oco.NoisyFTRL, (LpBall(5, 2.0), loss), both
        yield oco.NoisyFTRL, (LpBall(5, 1.5), sq), {**both, "statistics": "quadratic"}
        for half_life in (500.0, "auto"):
            forgets = {"statistics": "quadratic", "half_life": half_life}
            yield oco.NoisyFTRL, (LpBall(5), sq), {**both, **forgets}
        for loss in (LogisticLoss(1.0, slope_bound=0.75), HuberLoss(1.0, 1.0)):
            yield oco.NoisyNewton, (LpBall(5, 2.0), loss), both
        yield oco.NoisyNewton, (LpBall(5, 2.0), log), {**both, "half_life": 500.0}
        for more in (
            {"batch": 7},
            {"sum_method": "tree"},
            {"numerics": "float"},
        ):
            yield oco.NoisyFTRL, (LpBall(3, 1.0), lin), {**both, **more}
        for p, loss, more in (
            (1.5, log, {}),
            (2.0, sq, {"batch": 3}),
            (1.01, lin, {"noise": "generalized_gaussian"}),
            (2.0, custom, {"numerics": "float"}),
        ):
            yield fw.TreeFrankWolfe, (LpBall(40, p), loss), {**both, **more}
        for loss, more in ((log, {}), (lin, {"batch": 1}), (custom, {"selector": "laplace"})):
            yield fw.PolyhedralFrankWolfe, (LpBall(5, 1.0), loss), {**both, **more}
        box = Box([-1.0] * 4, [1.0, 2.0, 3.0, 4.0])
        yield fw.PolyhedralFrankWolfe, (box, log), both
        for domain in (LpBall(4, 2.0), Box([-1.0] * 3, [1.0] * 3)):
            for loss in (log, quadratic, lin):
                yield oco.CoupledRegularizedLeader, (domain, loss), both
        yield oco.ContinuousMultiplicativeWeights, (LpBall(4, 2.0), lin), both
        yield bandits.LinUCB, (3, 4), both
        yield bandits.LinUCB, (3, 4), {**both, "half_life": 500.0}
    for count in (10, 11):
        yield experts.PrefixHedge, (count,), common
    for selection in ("gumbel", "exponential"):
        yield experts.EpochSelector, (10,), {**common, "selection": selection}
    yield experts.ShiftDetector, (10,), common
    for noise in ("knorm", "gaussian", "laplace"):
        yield experts.BatchShare, (9,), {**common, "noise": noise}
    yield oco.LipschitzLearner, (Box([0.0], [1.0]),), {"lipschitz": 1.0, **common}
    if horizon is not None and horizon < 10**6:
        yield experts.ObliviousTracker, (10,), {**common, "switches": 2}


def corners(horizon: int, budget: Budget) -> Iterator[Case]:
    """Yield options that the streams leave out."""
    common = {"horizon": horizon, "budget": budget}
    log, lin = LogisticLoss(1.0), LinearLoss(1.0)
    for domain in (Simplex(6), Box([-1.0, -2.0], [1.0, 5.0])):
        yield oco.ContinuousMultiplicativeWeights, (domain, lin), common
        yield oco.ContinuousMultiplicativeWeights, (domain, log), common
    for coupling in ("scheduled", "dartboard", "anchored"):
        more = {**common, "coupling": coupling}
        yield oco.ContinuousMultiplicativeWeights, (LpBall(3, 2.0), lin), more
    for coupling in ("scheduled", "density_ratio"):
        more = {**common, "coupling": coupling}
        yield oco.CoupledRegularizedLeader, (LpBall(3, 2.0), log), more
    yield oco.CoupledRegularizedLeader, (LpBall(3, 2.0), HuberLoss(1.0, 1.0)), common
    bounded = LogisticLoss(1.0, feature_bound_l2=0.5)
    yield oco.CoupledRegularizedLeader, (Box([-1.0] * 3, [1.0, 2.0, 3.0]), bounded), common
    yield oco.NoisyFTRL, (Box([-1.0] * 3, [1.0, 2.0, 3.0]), bounded), {**common, "batch": 10}
    corner = VertexSet(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]]))
    yield fw.PolyhedralFrankWolfe, (corner, bounded), {**common, "batch": 3}
    plane = Box([0.0, -1.0], [2.0, 1.0])
    yield oco.LipschitzLearner, (plane,), {"lipschitz": 1.0, **common}
    for arm, relation in product(("polyhedral", "tree"), ("replace", "zero_out")):
        more = {**common, "arm_learner": arm, "relation": relation}
        yield bandits.HighDimensionalBandit, (3, LpBall(20, 1.0)), more
    for method, norm in (("auto", 2.0), ("tree", math.inf)):
        yield mechanisms.ContinualSum, (4,), {**common, "method": method, "norm": norm}
    for noise in ("exponential", "gumbel", "laplace"):
        yield mechanisms.NoisyMax, (5,), {**common, "noise": noise}
    yield mechanisms.AboveThreshold, (), {**common, "alarms": 3}


def people(horizon: int) -> Iterator[Case]:
    """Yield learners whose budget is for all rounds of one person."""
    log = LogisticLoss(1.0)
    for rounds, separation in ((10, 1), (5, max(1, horizon // 10)), (None, max(2, horizon // 50))):
        rule = Participation(rounds, separation)
        common = {"horizon": horizon, "budget": BUDGETS[1], "participation": rule}
        yield oco.NoisyFTRL, (LpBall(5, 2.0), log), common
        yield oco.NoisyFTRL, (LpBall(5, 2.0), log), {**common, "sum_method": "blt"}
        yield oco.NoisyNewton, (LpBall(3, 1.0), log), common
        yield fw.TreeFrankWolfe, (LpBall(40, 1.5), log), {**common, "numerics": "float"}
        yield experts.PrefixHedge, (10,), common
        yield bandits.LinUCB, (3, 4), common


def pure(horizon: int) -> Iterator[Case]:
    """Yield what can do without delta."""
    common = {"horizon": horizon, "budget": Budget(1.0, 0.0)}
    ball, box = LpBall(5, 1.0), Box([-1.0, -2.0], [1.0, 5.0])
    for domain, selector in product((ball, box), ("gumbel", "laplace")):
        more = {**common, "selector": selector}
        yield fw.PolyhedralFrankWolfe, (domain, LogisticLoss(1.0)), more
    for kind, problem in (
        (experts.EpochSelector, (10,)),
        (experts.ShiftDetector, (10,)),
        (experts.BatchShare, (9,)),
        (mechanisms.NoisyMax, (5,)),
        (mechanisms.AboveThreshold, ()),
    ):
        yield kind, problem, common


def cases() -> Iterator[Case]:
    """Yield (class, problem, options)."""
    for horizon in HORIZONS:
        yield from pure(horizon)
        yield from people(horizon)
    for horizon, budget in product(HORIZONS, BUDGETS):
        yield from streams(horizon, budget)
        yield from corners(horizon, budget)
    for records in (200, 5000):
        problem = (LpBall(3, 2.0), SquaredLoss(1.0, 1.0))
        yield fw.SufficientStatistics, problem, {"budget": BUDGETS[1], "records": records}


def case_name(case: Case) -> str:
    """Return a configuration in one line."""
    kind, problem, options = case
    text = [repr(x) for x in problem] + [f"{name}={value!r}" for name, value in options.items()]
    return f"{kind.__name__}({', '.join(text)})".replace("\n", " ")


def certify(learner: Any) -> dict[str, Any]:
    """Return what a learner's guarantee says, and a hash of its parameters."""
    g = learner.guarantee
    numbers = {
        "epsilon": g.epsilon,
        "delta": g.delta,
        "mass": g.truncation_mass,
        "at 0.7": g.delta_at(0.7),
        "at 1e-5": g.epsilon_at(1e-5),
    }
    parameters = json.dumps(learner.plan.to_dict(), sort_keys=True).encode()
    return {
        **{name: float(value).hex() for name, value in numbers.items()},
        "certified": g.certified,
        "parameters": hashlib.sha256(parameters).hexdigest()[:16],
    }


def release() -> dict[str, list[str]]:
    """Return hashes of the decisions and of the last state of a learner of every family."""
    hashes = {}
    for name, (make, record) in families.LEARNERS.items():
        rng, learner, digest = np.random.default_rng(7), make(), hashlib.sha256()
        for _ in range(families.T):
            digest.update(np.ascontiguousarray(learner.decide()).tobytes())
            learner.observe(*record(rng))
        state = hashlib.sha256(learner._engine.state()).hexdigest()
        hashes[name] = [digest.hexdigest()[:16], state[:16]]
    return hashes


def bounds(kind: type) -> dict[str, float]:
    """Return 1 for each bound of a class that has no default: names of cases leave them out."""
    given = inspect.signature(kind).parameters
    names = ("bound", "context_bound", "reward_bound", "sensitivity")
    return {name: 1.0 for name in names if name in given}


def measure() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what `tests/pins/golden.json` holds, and the guarantees."""
    rows: dict[str, Any] = {}
    guarantees = []
    for case in cases():
        kind, problem, options = case
        try:
            learner = kind(*problem, source=Source.seeded(5), **bounds(kind), **options)
        except dpoco.errors.CalibrationError:
            rows[case_name(case)] = {"refused": True}
            continue
        rows[case_name(case)] = certify(learner)
        if dpoco.Guarantee.from_dict(learner.guarantee.to_dict()) != learner.guarantee:
            raise ValueError(f"{case_name(case)}: its guarantee is not read as it was written")
        if math.isfinite(learner.guarantee.epsilon):
            own = learner.guarantee  # as with secret noise: these are proved, not released
            secret = dataclasses.replace(own, seeded=False, conditions=own.further)
            guarantees.append(secret.to_dict())
    return {"certified": rows, "released": release()}, guarantees


def find_moved(was: dict[str, Any], now: dict[str, Any], exact: bool) -> list[str]:
    """Return the fields of one configuration that differ."""
    names = []
    for name in {*was, *now}:
        a, b = was.get(name), now.get(name)
        if a == b or (name == "parameters" and not exact):
            continue
        if not exact and isinstance(a, str) and isinstance(b, str):
            x, y = float.fromhex(a), float.fromhex(b)
            size = max(abs(x), abs(y))
            # A small delta is e to the power of something large, which is what is rounded.
            digits = max(1.0, -math.log(size)) if size > 0.0 else 1.0
            if x == y or abs(x - y) <= CLOSE * digits * size:
                continue
            names.append(f"{name} {x:.12g} -> {y:.12g}")
        else:
            names.append(f"{name} {a} -> {b}")
    return sorted(names)


def main() -> int:
    """Run the command; return 1 if something moved."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--exact", action="store_true", help="compare every bit, and releases")
    parser.add_argument("--guarantees", metavar="FILE", help="write the guarantees as JSON")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of noise that dominates
    now, guarantees = measure()
    if arguments.guarantees:
        Path(arguments.guarantees).write_text(json.dumps(guarantees))
    was = files.read("golden")
    differences = []
    for name in sorted({*was["certified"], *now["certified"]}):
        a, b = was["certified"].get(name, {}), now["certified"].get(name, {})
        found = find_moved(a, b, arguments.exact)
        differences += [f"{name}: {', '.join(found)}"] * bool(found)
    if arguments.exact:
        names = {*was["released"], *now["released"]}
        differences += [
            f"releases of {n}"
            for n in sorted(names)
            if was["released"].get(n) != now["released"].get(n)
        ]
    print("\n".join(differences))
    print(f"{len(now['certified'])} configurations, {len(differences)} lines moved")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
