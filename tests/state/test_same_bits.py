"""Releases and states of compiled engines have the same bits on every machine.

Every setting is written out: what Python calibrates passes through the platform's libm. The hashes
of `tests/pins/same_bits.json` are those of one build. `.ci/run` compares builds for two instruction
sets with them; so does every platform that runs the tests. `python -m tests.pins --write same_bits`
writes the file: after a change of noise, of states or of arithmetic, and never to make a platform
pass.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.bits import spoiled_states
from tests.coupled_engines import leader, weights
from tests.descriptions import unchecked
from tests.pins import files

import dpoco
from dpoco import _core
from dpoco.bandits import ResidualPhases
from dpoco.errors import StateError
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.bounds import GlmGradient, GradientAndCurvature, SecondMoments
from dpoco.privacy.mechanisms.factorisations import Normalised, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.privacy.mechanisms.selections import LossSums, Selections, ThresholdTests
from dpoco.random import Source

FloatArray = NDArray[np.float64]

GOLDEN = files.read("same_bits")
CLAIM = {"key": bytes(range(32)), "stream": 1}

COUPLED = {
    "density ratio": {"max_switches": 5, "forced_switch": 0.0, "block": 1},
    "maximal": {"coupling": "maximal", "forced_switch": 0.0, "block": 1},
    "capped": {"max_switches": 3, "block": 3},
    "cold": {"inverse_temperature": 1e10, "regularization": 1e-8, "clip_high": 9.0},
}  # fmt: skip
ANCHORED = {
    "coupling": "anchored", "anchors": 6, "clip_high": 8.0, "clip_low": 8.0, "lipschitz": 1.5,
    "inverse_temperature": 0.02, "regularization": 30.0, "forced_switch": 0.0, "block": 1,
}  # fmt: skip
STATISTIC = {
    "experts": 4, "offsets": [2.0, 4.0, 6.0], "reach": 64, "slopes": [0.5, 0.2, 0.05],
    "windows": "tangent",
}  # fmt: skip
BIAS = {"log_union": 0.9, "noise": 0.5, "unselected": 1.0}
SELECTION = Selections("exponential", LossSums(1.0), 0.5, rounds=1, exponent=0.0)
TESTS = ThresholdTests("exponential", 0.2, 0.2, sensitivity=2.0, spread=2.0, alarms=1)
EPOCHS = Parts("instances", (SELECTION,), "epoch_selector")
DETECTOR = Parts("instances", (Parts("together", (SELECTION, TESTS)),), "shift_detector")
SHARE = BatchRelease(4, "knorm", 0.25, 5, 0.0)
ON_A_GRID = unchecked(SHARE, law="laplace", batch=7, grid=2.0**-9)
EXPERTS: dict[str, tuple[Any, ...]] = {
    "ShiftDetector": (DETECTOR, None, 1.0, BIAS, STATISTIC),
    "ShiftDetector, dyadic": (
        DETECTOR, None, 1.0, BIAS, {**STATISTIC, "windows": "dyadic", "slopes": []},
    ),
    "ShiftDetector, naive": (DETECTOR, None, 1.0, BIAS, {**STATISTIC, "windows": "naive"}),
    "EpochSelector": (EPOCHS, 2, 2**62),
    "EpochSelector, windows": (EPOCHS, None, 24),
    "BatchShare": (SHARE, 5, 0.2, 0.0, 0.0),
    "BatchShare, shared": (SHARE, 5, 300.0, 1e-100, 0.0),
    "BatchShare, floored": (SHARE, 5, 2.0, 0.0, 0.05),
    "BatchShare, on a grid": (ON_A_GRID, 7, 0.2, 0.0, 0.0),
}  # fmt: skip


def hash_of(*parts: FloatArray | NDArray[Any] | bytes) -> str:
    data = b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)
    return hashlib.sha256(data).hexdigest()[:16]


def numbers(*shape: int, of: int) -> FloatArray:
    """Numbers of [-1, 1] that take two integer operations and a division."""
    count = int(np.prod(shape))
    return ((np.arange(1, count + 1) * (7919 + of)) % 2003 / 1001.0 - 1.0).reshape(shape)


def domain(name: str, d: int) -> _core.Domain:
    if name == "cut":  # a box without two of its corners
        rows, ends = np.vstack([np.eye(d), np.full(d, 0.5)]), np.full(d, 1.0)
        bounds = np.tile(np.append(ends, 0.7), 2)
        return _core.Polytope(np.vstack([rows, -rows]), bounds, 0.0 * ends, -ends, ends, 2.0)
    if name == "box":
        return _core.Box(np.full(d, -1.0), np.full(d, 2.0))
    return _core.Simplex(d, 1.0) if name == "simplex" else _core.LpBall(d, float(name[1:]), 1.0)


def records(d: int, rounds: int) -> tuple[FloatArray, FloatArray]:
    return numbers(rounds, d, of=1) / d**0.5, numbers(rounds, of=2)


def clipper(d: int) -> _core.RecordClipper:
    return _core.RecordClipper(d, 0.5, 2.0, np.inf)


def loss_sum(loss: str, d: int) -> dict[str, Any]:
    own: dict[str, Any] = {"kind": "glm", "unbounded": False}
    if loss == "quadratic":
        return own | {"kind": loss, "lipschitz": 2.0, "smoothness": 1.0, "radius": 2.0}
    own["clipper"] = clipper(d)
    if loss == "linear":
        return own | {"kind": loss}
    low = 0.0 if loss == "logistic" else -1.0
    return own | {"glm": _core.GlmLoss(loss, 1.0, 0.5, low, 1.0)}


SHARED = {
    "block": 2, "forced_switch": 0.3, "max_switches": None, "coupling": "density_ratio",
    "lipschitz": 10.0, "smoothness": 1.0, "clip_high": 0.3, "clip_low": 0.3,
}  # fmt: skip
LEADER = SHARED | {
    "step_size": 0.2, "noise_scale": 2.0, "noise_growth": False, "barrier_weight": 0.1,
    "strong_convexity": 0.0,
}  # fmt: skip
HARD = {
    "faint barrier": {"barrier_weight": 1e-7, "noise_scale": 1e-3},
    "strong barrier": {"barrier_weight": 1e3, "noise_scale": 1e-2},
    "long steps": {"step_size": 1e8, "barrier_weight": 1e-3},
    "growing noise": {
        "noise_growth": True, "step_size": float("inf"), "strong_convexity": 0.5,
        "max_switches": 9, "forced_switch": 0.1,
    },
    "no noise": {"noise_scale": 0.0, "coupling": "scheduled", "forced_switch": 1.0, "block": 3},
    "maximal": {"coupling": "maximal", "forced_switch": 0.0, "block": 1},
    "capped": {
        "max_switches": 3, "forced_switch": 0.2, "clip_high": 0.01, "block": 1, "noise_scale": 20.0,
    },
    "one block": {"rounds": 700, "block": 600},
}  # fmt: skip
WEIGHTS = SHARED | {
    "inverse_temperature": 0.5, "regularization": 4.0, "exact_only": False,
    "sampler_tolerance": 1e-6, "factor_range": 0.0, "anchors": 0, "clip_error": 1e-4,
}  # fmt: skip


def coupled(
    kind: type, settings: dict[str, Any], rounds: int, loss: str, where: str, d: int
) -> str:
    """Decisions, losses and state of a learner whose decisions are coupled."""
    own: dict[str, Any] = {**settings, "rounds": rounds, **CLAIM}
    if kind is _core.ContinuousMultiplicativeWeights:
        if loss != "linear":
            own |= {"coupling": "dartboard", "factor_range": 4.0}
    elif loss == "linear":
        own["barrier_weight"] = 0.0
    build = weights if kind is _core.ContinuousMultiplicativeWeights else leader
    engine = build(domain(where, d), loss_sum(loss, d), own)
    rows, labels = records(d, rounds)
    if loss == "quadratic":
        matrices = numbers(rounds, d, d, of=3) / d
        decisions = np.empty((rounds, d))
        for t in range(rounds):
            decisions[t] = engine.decision()
            # Entry by entry: numpy's product of matrices is the platform's.
            square = (matrices[t][:, None, :] * matrices[t][None, :, :]).cumsum(axis=2)[:, :, -1]
            engine.observe_quadratic(t, np.ascontiguousarray(square), rows[t])
        return hash_of(decisions, engine.state())
    return ran(engine, rows, labels if loss != "linear" else None)


def solved(loss: str, where: str, d: int, **changes: Any) -> str:
    """A leader's points for noise of every size and kind, on a stream that pushes one way."""
    own: dict[str, Any] = {**LEADER, "rounds": 33, **CLAIM, **changes}
    losses = loss_sum(loss, d) | {"unbounded": where == "space"}
    place = domain("l2" if where == "space" else where, d)
    engine = leader(place, losses, own)
    n, last = len(engine.nonprivate_point()), own["rounds"] - 1
    ways = [np.eye(n)[0], -np.ones(n), numbers(n, of=5), np.zeros(n)]
    row, square = np.full(d, 1.0 / d), np.diag(np.arange(d) / d)
    found = []
    for t in range(last + 1):
        if t in (0, 1, 2, 9, last):
            for size in (1e-12, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e12):
                found += [engine.nonprivate_solve(size * way) for way in ways]
            found += [engine.nonprivate_point(), engine.decision()]
        if loss == "quadratic":
            engine.observe_quadratic(t, square, row)
        else:
            engine.observe(t, 9.0 * row, 1.0)
        found.append(engine.nonprivate_log_ratio())
    assert all(np.isfinite(each).all() for each in found)
    return hash_of(*map(np.asarray, found), engine.state(), taken(engine, engine.state()))


def taken(engine: Any, state: bytes) -> NDArray[Any]:
    """Which of the states that differ from this one in a word an engine takes."""
    found = []
    for each in spoiled_states(state):
        try:
            engine.restore(each)
            found.append(True)
        except StateError:
            found.append(False)
    return np.array(found)


def weighed(loss: str, where: str, d: int, rounds: int, **changes: Any) -> str:
    """Decisions, factors and states of weights that couple in some way, pushed to a wall or not."""
    own = {**WEIGHTS, "rounds": rounds, **CLAIM, **changes}
    losses = loss_sum(loss, d) | {"unbounded": where == "space"}
    place = domain("l2" if where == "space" else where, d)
    engine = weights(place, losses, own)
    rows, labels = records(d, rounds)
    found: list[Any] = []
    for t in range(rounds):
        row = np.abs(rows[t]) if changes.get("inverse_temperature", 0.0) > 1e6 else rows[t]
        if loss == "quadratic":
            engine.observe_quadratic(t, np.diag(np.abs(rows[t])), row)
        elif loss == "linear":
            engine.observe_gradient(t, row)
        else:
            engine.observe(t, row, labels[t])
        found += [engine.decision(), engine.nonprivate_log_factor()]
    return hash_of(*map(np.asarray, found), engine.state(), taken(engine, engine.state()))


def chosen(mechanism: Any, own: tuple[Any, ...], name: str, rounds: int) -> str:
    """What a learner of four experts chooses, the best of whom changes from time to time."""
    problem = {"experts": 4, "low": 0.0, "high": 1.0, "rounds": rounds}
    engine = getattr(_core, name)(mechanism, problem, *own, CLAIM)
    losses, own_losses = 0.5 + 0.5 * numbers(rounds, 4, of=7), np.empty(rounds)
    for t in range(rounds):
        losses[t, 3 * t // rounds] *= 0.1
    decisions, half = np.empty(rounds, dtype=np.int64), rounds // 2 + 3
    engine.run(losses[:half], own_losses[:half], decisions[:half])
    for t in range(half, rounds):
        decisions[t], own_losses[t] = engine.decision(), 0.0
        engine.observe(t, losses[t])
    more = [np.array(engine.alarms())] if name == "ShiftDetector" else []
    return hash_of(decisions, own_losses, *more, engine.state(), taken(engine, engine.state()))


def ran(engine: Any, rows: FloatArray, labels: FloatArray | None) -> str:
    rounds = len(rows)
    losses, decisions = np.empty(rounds), np.empty(rows.shape)
    engine.run(rows, labels, losses, decisions, np.empty(rounds, dtype=np.uint8))
    return hash_of(losses, decisions, engine.state())


def running_sum(summand: Any, rounds: int, scale: float, **batches: Any) -> GaussianSum:
    return GaussianSum(summand, Tree(), rounds, scale=scale, **batches)


def noisy_ftrl(loss: str, where: str, d: int) -> str:
    rounds, tuning = 60, dict[str, Any](step_size=0.1)
    summand: Any = GlmGradient(d, 2.0, 0.5, math.inf, 1.0)
    if loss == "squared":
        tuning = {"domain_radius": 1.0, "ridges": [5.0] * rounds, "shrinkage": 0.01}
        summand = SecondMoments(d, 2.0, 0.5, math.inf, 1.0, 1.0)
    total = running_sum(summand, rounds, 2.0)
    glm = loss_sum(loss, d)["glm"]
    engine = _core.NoisyFtrl(domain(where, d), glm, total, {"rounds": rounds, **tuning}, CLAIM)
    return ran(engine, *records(d, rounds))


def noisy_newton(loss: str, where: str, d: int) -> str:
    rounds = 60
    tuning = {
        "rounds": rounds, "step_size": 0.1, "step_share": 0.3, "shrinkage": 0.1,
        "deviations": [1.0] * 29,
    }  # fmt: skip
    summand = GradientAndCurvature(d, 2.0, 0.5, math.inf, 0.5, 0.25, 2.0)
    total = running_sum(summand, 29, 0.05, batch=2, growth="root")
    bounded = _core.GlmLoss(loss, 1.0, 0.5, 0.0, 1.0, 0.5)
    engine = _core.NoisyNewton(domain(where, d), bounded, total, tuning, CLAIM)
    return ran(engine, *records(d, rounds))


def linucb(arms: int, d: int) -> str:
    rounds = 80
    tuning = {
        "rounds": rounds, "shift": 8.0, "exploration": 0.5, "spread": 1.0, "log_term": 5.0,
        "growth": 0.1, "bias": 2.0,
    }  # fmt: skip
    summand = SecondMoments(d, 2.0, 0.5, math.inf, 1.0, 1.0, arms)
    total = running_sum(summand, rounds // 2, 0.5, batch=2)
    engine = _core.LinUcb(total, tuning, CLAIM)
    chosen, own = np.empty(rounds, dtype=np.int64), np.empty(rounds)
    engine.run(numbers(rounds, d, of=4), numbers(rounds, arms, of=5), chosen, own)
    return hash_of(chosen, own, engine.coefficients(), engine.state())


def residual_phases(arms: int, d: int) -> str:
    rounds = 400
    tuning = ResidualPhases._tuning(rounds, 1.0, 1.0, None, 0, None)
    summand = ResidualStatistics(d, 1.5, arms, 10, 0.7, 0.3)
    factor = Normalised((0.5999999999,), (0.4,), 5)
    total = GaussianSum(summand, factor, pushes=5, batch=40, growth="three_tenths", scale=2.0)
    engine = _core.ResidualPhases(total, tuning, CLAIM)
    chosen, own = np.empty(rounds, dtype=np.int64), np.empty(rounds)
    engine.run(numbers(rounds, d, of=4), numbers(rounds, arms, of=5), chosen, own)
    return hash_of(chosen, own, engine.coefficients(), engine.state())


def noise(law: str) -> str:
    return hash_of(getattr(dpoco.noise, law)(Source.seeded(1), 3001))


def truncated(where: str, d: int) -> str:
    set_of = dpoco.domains.Simplex(d) if where == "simplex" else dpoco.domains.LpBall(d)
    draws = dpoco.samplers.truncated_gaussian(set_of, numbers(d, of=6), 0.3, 40, Source.seeded(1))
    return hash_of(draws)


def _cases() -> dict[str, Callable[[], str]]:
    cases: dict[str, Callable[[], str]] = {}

    def add(function: Callable[..., str], *arguments: Any, name: str = "") -> None:
        words = [name or function.__name__, *map(str, arguments)]
        cases[" ".join(words)] = lambda: function(*arguments)

    def leader(*problem: Any) -> str:
        return coupled(_core.CoupledRegularizedLeader, LEADER, 40, *problem)

    def weights(*problem: Any) -> str:
        return coupled(_core.ContinuousMultiplicativeWeights, WEIGHTS, 12, *problem)

    for loss in ("linear", "logistic", "huber", "squared", "quadratic"):
        for where in ("l2", "box", "simplex"):
            add(leader, loss, where, 10)
        add(leader, loss, "l2", 3)
        add(weights, loss, "l2", 10)
    for loss in ("squared", "quadratic"):
        add(leader, loss, "l3", 5)
        add(leader, loss, "l2", 33)
        add(weights, loss, "box", 5)
        add(weights, loss, "simplex", 5)
        add(weights, loss, "l2", 17)
    for loss in ("logistic", "huber", "squared", "quadratic"):
        for where, d in (("l2", 1), ("box", 4), ("simplex", 5), ("l4", 3), ("cut", 4)):
            add(solved, loss, where, d)
    for name, changes in HARD.items():
        for loss, where, d in (
            ("logistic", "simplex", 4),
            ("quadratic", "cut", 4),
            ("huber", "l2", 3),
        ):
            add(functools.partial(solved, **changes), loss, where, d, name=f"solved, {name},")
    add(functools.partial(solved, barrier_weight=1e-5), "logistic", "box", 24, name="solved")
    add(functools.partial(solved, barrier_weight=0.0), "quadratic", "space", 3, name="solved")
    for name, more in COUPLED.items():
        for loss, where, d in (
            ("linear", "box", 3),
            ("linear", "l2", 4),
            ("quadratic", "space", 2),
        ):
            rounds = 530 if (loss, name) == ("quadratic", "density ratio") else 40
            add(
                functools.partial(weighed, **more), loss, where, d, rounds, name=f"weighed, {name},"
            )
    for loss in ("linear", "huber", "logistic"):
        add(functools.partial(weighed, **ANCHORED), loss, "box", 3, 40, name="weighed, anchored,")
    for name, (mechanism, *own) in EXPERTS.items():
        engine = functools.partial(chosen, mechanism, tuple(own))
        add(engine, name.split(",")[0], 400, name=f"chosen, {name},")
    for loss in ("logistic", "squared"):
        for where, d in (("l2", 10), ("box", 33), ("simplex", 6), ("l3", 7)):
            add(noisy_ftrl, loss, where, d)
    for loss, where, d in (("logistic", "l2", 10), ("huber", "box", 6), ("logistic", "l2", 33)):
        add(noisy_newton, loss, where, d)
    for d in (3, 10, 33):
        add(linucb, 3, d)
        add(residual_phases, 3, d)
    for law in ("gaussian", "laplace", "exponential", "gumbel"):
        add(noise, law)
    for where, d in (("l2", 17), ("simplex", 17)):
        add(truncated, where, d)
    return cases


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_every_other_build(name: str) -> None:
    assert CASES[name]() == GOLDEN[name]


def test_every_instruction_set_gives_these_bits() -> None:
    for name in ("baseline", "avx2", "avx512"):
        try:
            dpoco.random.select_instruction_set(name)
        except ValueError:
            continue  # this processor has it not
        try:
            for key in {*list(CASES)[::5], *(key for key in CASES if key.startswith("noise"))}:
                assert CASES[key]() == GOLDEN[key]
        finally:
            dpoco.random.select_instruction_set("auto")


def test_every_hash_has_a_case_and_tells_it_from_the_others() -> None:
    assert list(GOLDEN) == list(CASES)
    assert len(set(GOLDEN.values())) == len(CASES)


def measure() -> dict[str, str]:
    """Return what `tests/pins/same_bits.json` holds."""
    return {name: case() for name, case in CASES.items()}
