"""The rows of the table: what is measured, against what, and the target of each."""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import audit_cases
import bandit_cases
import comw_cases
import ctrl_cases
import discrete_cases
import expert_cases
import journal_cases
import lattice_cases
import local_cases
import local_server_cases
import noisy_ftrl_cases
import numpy as np
import numpy_loops
import polyhedral_cases
import sampler_cases
import scale_cases
from measurement import Row, available_sets, compare, rate
from numpy.typing import NDArray

import dpoco
from dpoco.accounting import tree_frank_wolfe
from dpoco.accounting.continual_sum import blt_parameters

try:
    import numba_frank_wolfe
    import numba_tree
except ImportError:  # the extra `bench` is not installed: its rows are left out
    numba_tree = numba_frank_wolfe = None  # type: ignore[assignment]

FloatArray = NDArray[np.float64]

BUDGET = dpoco.Budget(epsilon=1.0, delta=1e-9)
HORIZON = 10**9
DIMENSIONS = (10, 100, 1000)
ENTRIES = 2 * 10**6  # per repetition of a sum


def run(*, quick: bool, pairs: int) -> list[Row]:
    check_competitors()
    shrink = 200 if quick else 1
    rows: list[Row] = []
    for part in (
        noise_rows(pairs, 10**6 // shrink),
        compiled_sum_rows(pairs, ENTRIES // shrink) if numba_tree is not None else (),
        loop_sum_rows(pairs, ENTRIES // (4 * shrink)),
        learner_rows(pairs, shrink),
        compiled_learner_rows(pairs, shrink) if numba_frank_wolfe is not None else (),
        polyhedral_cases.rows(pairs, shrink),
        noisy_ftrl_cases.rows(pairs, shrink),
        ctrl_cases.rows(pairs, shrink),
        comw_cases.rows(pairs, shrink),
        sampler_cases.sampler_rows(pairs, shrink),
        sampler_cases.gibbs_rows(pairs, shrink),
        discrete_cases.rows(pairs, shrink),
        lattice_cases.rows(pairs, shrink),
        expert_cases.rows(pairs, shrink),
        bandit_cases.rows(pairs, shrink),
        local_cases.rows(pairs, shrink),
        local_server_cases.rows(pairs, shrink),
        audit_cases.rows(pairs, shrink),
        journal_cases.rows(pairs, shrink),
        scale_cases.rows(pairs, shrink),
        state_rows(pairs, shrink),
        memory_rows(),
    ):
        rows.extend(part)
    return rows


def vectors(rounds: int, d: int, *, order: float = 2.0) -> FloatArray:
    """Rows of norm 0.5 to 1.5, so that a bound of 1 clips half of them."""
    generator = np.random.default_rng(d)
    rows = generator.standard_normal((rounds, d))
    rows *= (generator.uniform(0.5, 1.5, rounds) / np.linalg.norm(rows, ord=order, axis=1))[:, None]
    return rows


# ---- noise --------------------------------------------------------------------------------------


def noise_rows(pairs: int, size: int) -> Iterator[Row]:
    source = dpoco.random.Source()
    generator = np.random.default_rng()
    out = np.empty(size)
    # Laplace and Gumbel take no `out` in NumPy: theirs allocate, as their users' code does.
    kinds: list[tuple[str, Callable[..., object], Callable[[], object], str]] = [
        ("Gaussian", dpoco.noise.gaussian, lambda: generator.standard_normal(out=out),
         "standard_normal(out)"),
        ("Laplace", dpoco.noise.laplace, lambda: generator.laplace(size=size), "laplace"),
        ("exponential", dpoco.noise.exponential,
         lambda: generator.standard_exponential(out=out), "standard_exponential(out)"),
        ("Gumbel", dpoco.noise.gumbel, lambda: generator.gumbel(size=size), "gumbel"),
    ]  # fmt: skip
    for rank, name in enumerate(available_sets()):
        for kind, ours, theirs, against in kinds:
            yield compare(
                f"Noise: fill an array of {size:,} (ns per variate)",
                kind,
                partial(ours, source, out=out),
                theirs,
                against=f"default_rng().{against}",
                units=size,
                pairs=pairs,
                instruction_set=name,
                target=1.0 if rank == 0 else None,
            )


# ---- continual sums -----------------------------------------------------------------------------


def continual_sum(d: int, method: str) -> dpoco.mechanisms.ContinualSum:
    return dpoco.mechanisms.ContinualSum(
        d, horizon=HORIZON, budget=BUDGET, method=method, bound=1.0
    )


def compiled_sum_rows(pairs: int, entries: int) -> Iterator[Row]:
    sets = available_sets()
    chosen = [name for name in sets if name == "avx2" or name == sets[0]]
    for d in DIMENSIONS:
        values = vectors(entries // d, d)
        scale = continual_sum(d, "tree").plan.mechanism.scale
        # NumPy's own normals, and the fastest normals a compiled loop can have.
        trees = {"pool": numba_tree.Tree(d, scale=scale, bound=1.0, noise="pool")}
        trees.update([numba_tree.fastest(d, scale, values)])
        for name, (noise, tree) in itertools.product(chosen, trees.items()):
            for method in ("blt", "tree"):
                total = continual_sum(d, method)
                yield compare(
                    "ContinualSum.run against a Numba tree (ns per round)",
                    f"{method}, d = {d}",
                    partial(total.run, values),
                    partial(tree.run, values),
                    against=f"Numba tree, {noise}",
                    units=len(values),
                    pairs=pairs,
                    instruction_set=name,
                    target=1.0,
                )


def loop_sum_rows(pairs: int, entries: int) -> Iterator[Row]:
    best = dpoco.random.instruction_set()
    for d, target in zip(DIMENSIONS, (15.0, 4.0, 1.5), strict=True):
        values = vectors(min(entries // d, 20_000), d)
        for method in ("blt", "tree"):
            total = continual_sum(d, method)
            scale = total.plan.mechanism.scale
            loop: numpy_loops.Tree | numpy_loops.BufferedToeplitz
            if method == "tree":
                loop = numpy_loops.Tree(d, scale=scale, bound=1.0)
            else:
                blt = blt_parameters(HORIZON)
                loop = numpy_loops.BufferedToeplitz(
                    d, decay=blt.decay, weights=blt.weights, scale=scale, bound=1.0
                )
            yield compare(
                "ContinualSum.run against a NumPy loop (ns per round)",
                f"{method}, d = {d}",
                partial(total.run, values),
                partial(loop.run, values),
                against=f"NumPy {method} loop",
                units=len(values),
                pairs=pairs,
                instruction_set=best,
                target=target,
            )


# ---- learners -----------------------------------------------------------------------------------


def learner(
    d: int, p: float, *, budget: dpoco.Budget | None = BUDGET
) -> dpoco.frank_wolfe.TreeFrankWolfe:
    return dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(dimension=d, p=p, radius=2.0),
        dpoco.losses.LogisticLoss(feature_bound=1.0),
        horizon=HORIZON,
        budget=budget,
        sum_method="blt",
    )


def slope(ours: dpoco.frank_wolfe.TreeFrankWolfe) -> float | None:
    """The bound on the scalar of a leaf; None for linear losses."""
    return getattr(ours.plan.mechanism.summand, "slope", None)


def numpy_learner(
    ours: dpoco.frank_wolfe.TreeFrankWolfe, p: float, *, noisy: bool = True
) -> numpy_loops.FrankWolfe:
    blt = blt_parameters(HORIZON)
    bound = slope(ours)
    return numpy_loops.FrankWolfe(
        ours.domain.dimension,
        p=p,
        radius=2.0,
        feature_bound=1.0,
        leaf_bound=math.inf if bound is None else bound,
        scale=ours.plan.mechanism.scale if noisy else 0.0,
        decay=blt.decay,
        weights=blt.weights,
    )


def records(rounds: int, d: int, p: float) -> tuple[FloatArray, FloatArray]:
    q = 1.0 if math.isinf(p) else p / (p - 1.0)
    features = vectors(rounds, d, order=q)
    return features, (features.sum(axis=1) > 0).astype(float)


def compiled_learner(
    ours: dpoco.frank_wolfe.TreeFrankWolfe, p: float, *, noisy: bool = True
) -> numba_frank_wolfe.FrankWolfe:
    d, bound = ours.domain.dimension, slope(ours)
    scale = 0.0
    if noisy:
        scale = tree_frank_wolfe.calibrate(
            ours.domain, ours.loss, horizon=HORIZON, budget=BUDGET, sum_method="tree"
        ).mechanism.scale
    return numba_frank_wolfe.FrankWolfe(
        d, p=p, radius=2.0, bound=1.0, leaf_bound=math.inf if bound is None else bound, scale=scale
    )


def compiled_learner_rows(pairs: int, shrink: int) -> Iterator[Row]:
    for d, p in itertools.product((10, 100), (2.0, math.inf, 1.5)):
        features, labels = records((200_000 if d == 10 else 20_000) // shrink, d, p)
        ours = learner(d, p)
        theirs = compiled_learner(ours, p)
        theirs.run(features[:10], labels[:10])  # compiles
        yield compare(
            "TreeFrankWolfe.run against a loop compiled by Numba, binary-tree noise (ns per round)",
            f"p = {p:g}, d = {d}",
            partial(ours.run, features, labels, record_decisions=False),
            partial(theirs.run, features, labels),
            against="Numba loop",
            units=len(labels),
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=1.2 if p != 1.5 else 0.8,
        )


def learner_rows(pairs: int, shrink: int) -> Iterator[Row]:
    cases: list[tuple[int, float, float | None]] = [
        (10, 2.0, 3e6), (10, math.inf, 3e6), (10, 1.5, 1e6),
        (1000, 2.0, None), (1000, math.inf, None), (1000, 1.5, None),
    ]  # fmt: skip
    for d, p, target in cases:
        features, labels = records((200_000 if d == 10 else 2000) // shrink, d, p)
        yield rate(
            "TreeFrankWolfe: rounds per second of CPU time",
            f"run, p = {p:g}, d = {d}",
            partial(learner(d, p).run, features, labels, record_decisions=False),
            units=len(labels),
            repetitions=pairs,
            target=target,
        )
    for d, target in ((10, 150_000.0), (1000, None)):
        features, labels = records((30_000 if d == 10 else 3000) // shrink, d, 2.0)
        rows = list(zip(features, labels.tolist(), strict=True))
        yield rate(
            "TreeFrankWolfe: rounds per second of CPU time",
            f"decide + observe from Python, p = 2, d = {d}",
            partial(play, learner(d, 2.0), rows),
            units=len(rows),
            repetitions=pairs,
            target=target,
        )
    for d, p, _ in cases:
        features, labels = records((20_000 if d == 10 else 2000) // shrink, d, p)
        ours = learner(d, p)
        yield compare(
            "TreeFrankWolfe.run against a NumPy loop (ns per round)",
            f"p = {p:g}, d = {d}",
            partial(ours.run, features, labels),
            partial(numpy_learner(ours, p).run, features, labels),
            against="NumPy loop",
            units=len(labels),
            pairs=pairs,
            instruction_set=dpoco.random.instruction_set(),
            target=None,
        )


def play(ours: dpoco.frank_wolfe.TreeFrankWolfe, rows: list[tuple[FloatArray, float]]) -> None:
    for x, y in rows:
        ours.decide()
        ours.observe(x, y)


# ---- states -------------------------------------------------------------------------------------


def state_rows(pairs: int, shrink: int) -> Iterator[Row]:
    """Files of a long state, plain and under a key, in turns: the same disk and the same cache."""
    d, key = 10**6 // shrink, dpoco.EncryptionKey(os.urandom(32))
    total = continual_sum(d, "blt")
    total.push(np.zeros(d))
    group, best = "States: files of one learner", dpoco.random.instruction_set()
    with tempfile.TemporaryDirectory() as folder:
        plain, kept = Path(folder) / "plain", Path(folder) / "kept"
        total.save(plain)
        encrypted = dpoco.load(plain)
        encrypted.save(kept, key=key)
        megabytes = plain.stat().st_size / 1e6
        actions = {
            "save": (partial(encrypted.save, kept), partial(total.save, plain)),
            "load": (partial(dpoco.load, kept, key=key), partial(dpoco.load, plain)),
        }
        for name, (under_key, without) in actions.items():
            row = compare(
                group, f"{name}, {megabytes:.0f} MB", under_key, without, against="a plain file",
                units=1, pairs=pairs, instruction_set=best, target=None,
            )  # fmt: skip
            yield row
            for what, ns in (("plain", row.theirs_ns), ("encrypted", row.ours_ns)):
                claimed = (name, what) == ("save", "encrypted")  # a load builds the learner, too
                speed, target = 1e9 * megabytes / ns, 200.0 if claimed else None
                yield Row(group, f"{name}, {what}", best, speed, "MB/s", target, ours_ns=ns)


# ---- memory -------------------------------------------------------------------------------------


def memory_rows() -> Iterator[Row]:
    for method in ("blt", "tree"):
        for d in (10, 1000):
            total = dpoco.mechanisms.ContinualSum(
                d, horizon=10**7, budget=BUDGET, method=method, bound=1.0
            )
            total.push(np.zeros(d))
            yield Row(
                "Memory: state of a ContinualSum for 10,000,000 rounds",
                f"{method}, d = {d}",
                "",
                len(total._engine.state()),
                "bytes",
            )


# ---- the competitors do the job they are timed on -----------------------------------------------


def check_competitors() -> None:
    """Raise if a competitor computes something else than ours; seeded, so never by bad luck."""
    values = vectors(100, 5)
    exact = np.cumsum(numpy_loops.clip_rows(values, 1.0), axis=0)
    blt = blt_parameters(HORIZON)

    def sums(d: int, scale: float) -> Iterator[tuple[object, FloatArray]]:
        yield numpy_loops.Tree(d, scale=scale, bound=1.0), np.array([1.0, 3.0, 1.0])
        buffered = numpy_loops.BufferedToeplitz(
            d, decay=blt.decay, weights=blt.weights, scale=scale, bound=1.0
        )
        yield buffered, np.array([blt.row_norm(t) ** 2 for t in (1, 7, 8)])
        if numba_tree is not None:
            for noise in numba_tree.Tree.NOISE:
                tree = numba_tree.Tree(d, scale=scale, bound=1.0, noise=noise)
                yield tree, np.array([1.0, 3.0, 1.0])

    for quiet, _ in sums(5, 0.0):
        np.testing.assert_allclose(quiet.run(values), exact, atol=1e-9)  # type: ignore[attr-defined]
    for noisy, variances in sums(20_000, 2.0):
        released = noisy.run(np.zeros((8, 20_000)))[[0, 6, 7]]  # type: ignore[attr-defined]
        np.testing.assert_allclose(released.var(axis=1) / 4.0, variances, rtol=0.06)

    for p in (1.5, 2.0, math.inf):
        ours = learner(5, p, budget=None)
        features, labels = records(300, 5, p)
        theirs = numpy_learner(ours, p, noisy=False).run(features, labels)
        decisions = ours.run(features, labels).decisions
        np.testing.assert_allclose(theirs, decisions, atol=1e-9)
        if numba_frank_wolfe is not None:
            compiled = compiled_learner(ours, p, noisy=False)
            compiled.run(features, labels)
            np.testing.assert_allclose(compiled.decision, ours.last_decision, atol=1e-9)
