"""The private learner of Lipschitz losses, and what it should be compared with, on one stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.domains import Domain
from dpoco.evaluation._game import Comparators, Game, Step, horizon_of, play_game, totals
from dpoco.evaluation._private import own_noise
from dpoco.evaluation._report import RunReport
from dpoco.evaluation._runs import Snapshot
from dpoco.oco import LipschitzLearner
from dpoco.random import Source
from dpoco.trace import Flags

Loss = Callable[[FloatArray], Any]


def compare_private_lipschitz(
    losses: Sequence[Loss],
    domain: Domain,
    *,
    lipschitz: float,
    budget: Budget,
    horizon: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: Step | None = None,
    snapshot: Callable[[Snapshot], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: Any = None,
    skip_played: bool = False,
    stream: dict[str, Any] | None = None,
    nonprivate_flags: Flags | None = None,
    **options: Any,
) -> RunReport:
    """Play `dpoco.oco.LipschitzLearner`, and everything it should be compared with.

    As `compare_private`. The comparators: the same learner without noise, the best point of the
    learner's net in hindsight, and the middle of the domain in every round.

    Parameters
    ----------
    losses : sequence of callable
        One loss a round, from points, shape (N, d), to their losses, shape (N,); rounds past the
        horizon are left out.
    domain, lipschitz
        The learner's problem, in one or two dimensions.
    stream : dict, optional
        Public facts about the stream for the report; ``name``, ``description``, ``scaling``.
    nonprivate_flags : mapping of str to ndarray of bool, optional
        What was done to the stream before, of shape (T,) or (T, columns), for the report's
        ``nonprivate_records``: as `dpoco.datasets.Stream` has it.
    budget, horizon, repeats, seed, progress, snapshot, checkpoint, resume, skip_played, **options
        As in `compare_private`.

    Returns
    -------
    RunReport
        ``best_fixed`` is the best net point; its ``gap`` bounds how far its average loss is above
        that of the best decision, for losses that keep to `lipschitz`. Regret is against it, and
        may be negative. ``best_constant`` is the middle.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        As `compare_private`.
    """
    rounds = horizon_of(horizon, len(losses), resume)
    rows = list(losses)
    if not rows:
        raise ValueError("losses must have rounds")

    def build(source: Source | None, spent: Budget | None) -> Any:
        return LipschitzLearner(
            domain, lipschitz=lipschitz, horizon=rounds, budget=spent, source=source, **options
        )

    net = build(None, budget)

    def comparators(part: slice) -> Comparators:
        return net_comparators(rows[part], net)

    facts = {"name": "losses", "description": "Lipschitz losses", "scaling": "none"}
    game = Game(
        build=build,
        data=(rows,),
        comparators=comparators,
        noise=own_noise,
        problem=("domain",),
        domain=domain.to_dict(),
        loss={"type": "Lipschitz losses", "lipschitz": float(lipschitz)},
        stream={**facts, **(stream or {}), "dimension": int(domain.dimension)},
        run_options={},
        options=options,
        nonprivate_flags=nonprivate_flags or {},
    )  # fmt: skip
    return play_game(
        game,
        budget=budget,
        horizon=rounds,
        repeats=repeats,
        seed=seed,
        progress=progress,
        snapshot=snapshot,
        checkpoint=checkpoint,
        resume=resume,
        skip_played=skip_played,
    )


def net_comparators(rows: Sequence[Loss], learner: LipschitzLearner) -> Comparators:
    """Return the best point of a learner's net in hindsight, and the middle of its domain."""
    points, middle = learner.points, np.asarray(learner.domain.center, np.float64)[None, :]
    total = np.zeros(len(points))
    for loss in rows:
        total += _finite(loss(points))
    best = int(np.argmin(total))
    own = np.array([float(_finite(loss(points[best : best + 1]))[0]) for loss in rows])
    still = np.array([float(_finite(loss(middle))[0]) for loss in rows])
    # No decision is farther from the net than half a cell's diagonal.
    spans = [np.unique(axis) for axis in learner.net.T]
    sides = [float(np.diff(axis).max()) if len(axis) > 1 else 0.0 for axis in spans]
    gap = learner.parameters.lipschitz * 0.5 * float(np.linalg.norm(sides))
    return Comparators(
        {
            "name": "best net point",
            "decision": points[best].tolist(),
            **totals(own),
            "gap": gap,
        },
        np.cumsum(own),
        {
            "name": "middle of the domain",
            "decision": middle[0].tolist(),
            **totals(still),
        },
        np.cumsum(still),
    )


def _finite(values: Any) -> FloatArray:
    """Return losses, 0 where not finite, as the learner counts them."""
    array = np.asarray(values, np.float64)
    return np.where(np.isfinite(array), array, 0.0)
