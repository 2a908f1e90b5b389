"""``python -m tests.fuzz.threads``: learners in several threads, for ThreadSanitizer to watch.

What is checked here without it: learners of their own play as if alone; of two threads in one
learner one is refused with `RoundOrderError`; saved states load; children of one source differ.

Under ThreadSanitizer, with an extension built by the preset "thread" and DPOCO_BUILD_PYTHON on:

    TSAN_OPTIONS="suppressions=tests/fuzz/thread_suppressions.txt" \\
        LD_PRELOAD=$(gcc -print-file-name=libtsan.so) python -m tests.fuzz.threads
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.audit.replay_cases import case, find
from tests.fuzz.subjects import ONLINE, Online, _servers

import dpoco
from dpoco.frank_wolfe import SufficientStatistics
from dpoco.local import ClientPool, DistributionLearner, Hypotheses
from dpoco.random import Source

__all__ = ["main"]

_THREADS = 3
_QUESTIONS = (
    "variates_drawn", "nonprivate_sum", "nonprivate_sums", "nonprivate_violations",
    "check_process", "decision", "previous_decision", "weights", "state",
)  # fmt: skip


def together(*work: Callable[[], Any]) -> list[Any]:
    """Run all at once; return their results, or raise the first error of any."""
    results: list[Any] = [None] * len(work)
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(work))

    def run(place: int, each: Callable[[], Any]) -> None:
        try:
            barrier.wait()
            results[place] = each()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def apart(online: Online) -> None:
    """Learners of one domain, one loss and one source: each plays as it would alone."""

    def play(seed: int) -> bytes:
        learner = online.make(Source.seeded(seed))
        with contextlib.suppress(dpoco.HorizonExceeded):
            online.play(learner, 0, online.rounds)
        return learner._to_bytes()

    alone = [play(seed) for seed in range(_THREADS)]
    assert together(*(lambda seed=seed: play(seed) for seed in range(_THREADS))) == alone


def shared(online: Online) -> None:
    """Several threads in one learner: rounds are whole or refused, what is saved loads."""
    learner = online.make(Source.seeded(4))

    def tolerant(call: Callable[[], Any]) -> Callable[[], None]:
        def repeat() -> None:
            for _ in range(8):
                with contextlib.suppress(dpoco.RoundOrderError, dpoco.HorizonExceeded):
                    call()

        return repeat

    def look() -> None:
        repr(learner), getattr(learner, "round", 0), learner.guarantee
        for name in ("weights", "switches", "last_decision", "nonprivate_violations", "alarms",
                     "resamples", "coefficients", "alarms_left"):  # fmt: skip
            getattr(learner, name, None)

    def engine() -> None:
        for name in _QUESTIONS:
            call = getattr(learner._engine, name, None)
            if callable(call):
                call()

    together(
        tolerant(lambda: online.play(learner, 0, 1)),
        tolerant(lambda: online.play(learner, 0, 2)),
        tolerant(lambda: type(learner)._from_bytes(learner._to_bytes())),
        tolerant(look),
        tolerant(engine),
    )
    again = type(learner)._from_bytes(learner._to_bytes())
    assert again._to_bytes() == learner._to_bytes()


def long_runs() -> None:
    """Whatever another thread asks for during a long run: it is refused, or nothing is torn."""
    rng = np.random.default_rng(1)
    budget, many = dpoco.Budget(1.0, 1e-5), 20_000
    ball, loss = dpoco.domains.LpBall(8), dpoco.losses.SquaredLoss(1.0, 1.0, feature_bound_l2=1.0)
    records = rng.normal(size=(many, 8)), rng.normal(size=many)
    for learner, rows in (
        (
            dpoco.experts.PrefixHedge(50, horizon=many, budget=budget),
            (rng.uniform(size=(many, 50)),),
        ),
        (
            dpoco.experts.EpochSelector(50, horizon=many, budget=budget),
            (rng.uniform(size=(many, 50)),),
        ),
        (dpoco.frank_wolfe.TreeFrankWolfe(ball, loss, horizon=many, budget=budget), records),
        (dpoco.oco.NoisyFTRL(ball, loss, horizon=many, budget=budget), records),
        (dpoco.mechanisms.ContinualSum(8, horizon=many, budget=budget, bound=1.0), records[:1]),
    ):
        over = threading.Event()

        def play(learner: Any = learner, rows: Any = rows, over: Any = over) -> None:
            try:
                with contextlib.suppress(dpoco.RoundOrderError):  # refused its next part, maybe
                    learner.run(*rows)
            finally:
                over.set()

        def ask(learner: Any = learner, over: Any = over) -> None:
            while not over.is_set():
                for name in _QUESTIONS:
                    with contextlib.suppress(dpoco.RoundOrderError):
                        question = getattr(learner._engine, name, None)
                        question() if callable(question) else None
                with contextlib.suppress(dpoco.RoundOrderError):
                    learner._to_bytes()
                over.wait(0.0005)

        together(play, ask)
        assert type(learner)._from_bytes(learner._to_bytes()).round == learner.round


def sources() -> None:
    """One source, many threads: no child and no variate comes twice."""
    source = Source.seeded(1)

    def draw() -> list[bytes]:
        return [source.spawn().to_bytes() for _ in range(20)] + [source.uniform(5).tobytes()]

    found = [each for part in together(*[draw] * _THREADS) for each in part]
    assert len(set(found)) == len(found)


def local_reports() -> None:
    """One server and one pool of clients, and simulations, in several threads."""
    hypotheses = Hypotheses(_servers.FC)
    learner = DistributionLearner(hypotheses, epsilon=1.0, channel="bit", open_rounds=400)
    pool = ClientPool(hypotheses, 50, 1000.0, 1000)

    def serve() -> int:
        taken = 0
        for _ in range(5):
            spec = learner.round_spec()
            batch = pool.respond(spec, None, np.arange(50) % 6)
            learner.update(spec, batch)
            taken += len(batch)
            learner.predict(), learner.weights, learner.__reduce__()
        return taken

    assert sum(together(*[serve] * _THREADS)) == learner.reports

    def simulated() -> bytes:
        own = DistributionLearner(hypotheses, epsilon=1.0, public_seed=3)
        dpoco.environments.simulate_local(own, np.arange(300) % 6, source=Source.seeded(9))
        return own.weights.tobytes()

    assert len(set(together(*[simulated] * _THREADS))) == 1


def fits() -> None:
    """Fits to the same data: one fit of a model, many models."""
    make, (X, y), _ = case(find(SufficientStatistics))
    model = make(Source.seeded(1))

    def fit() -> int:
        try:
            model.fit(X, y)
        except dpoco.BudgetExceeded:
            return 0
        return 1

    assert sum(together(*[fit] * _THREADS)) == 1
    found = together(*[lambda: make(Source.seeded(2)).fit(X, y).theta.tobytes()] * _THREADS)
    assert len(set(found)) == 1


def main(match: str = "") -> int:
    """Run all; 0, or an exception."""
    warnings.simplefilter("ignore")
    for name, online in ONLINE.items():
        if match in name:
            apart(online)
            shared(online)
    if match in "long runs":
        long_runs()
    if not match:
        sources()
        local_reports()
        fits()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
