"""A private learner, and everything it should be compared with, on one stream."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dpoco._clipping import admitted_losses, checked_range
from dpoco._validation import float_array
from dpoco.accounting import Budget
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation._comparators import (
    FixedDecision,
    GlmLoss,
    best_constant_prediction,
    best_fixed_decision,
)
from dpoco.evaluation._game import (
    Comparators,
    Game,
    Step,
    constant_losses,
    horizon_of,
    noise_levels,
    play_game,
)
from dpoco.evaluation._report import RunReport
from dpoco.evaluation._runs import Snapshot
from dpoco.evaluation._sequences import best_expert
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.random import Source


def compare_private(
    stream: Stream,
    domain: Domain,
    loss: GlmLoss,
    *,
    budget: Budget,
    learner: Callable[..., Any] = TreeFrankWolfe,
    horizon: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: Step | None = None,
    snapshot: Callable[[Snapshot], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: Any = None,
    skip_played: bool = False,
    **options: Any,
) -> RunReport:
    """Play a private learner on a stream, and everything it should be compared with.

    The comparators: the same learner without noise, the best fixed decision in hindsight, and
    the best constant prediction. The report is for evaluation: it is **not private**.

    Parameters
    ----------
    stream : Stream
        Rounds past the horizon are left out.
    domain, loss
        The learner's problem; a generalised linear loss.
    budget : Budget
        Of one private run. Each repetition spends it anew.
    learner : class, default `dpoco.frank_wolfe.TreeFrankWolfe`
        A learner of `dpoco.frank_wolfe` or `dpoco.oco` that takes ``(domain, loss)``.
    horizon : int, optional
        Rounds the guarantee covers; default the stream's length, or what `resume` has.
    repeats : int, default 1
        Private runs with independent noise.
    seed : int, optional
        Makes the report reproducible but for its timing, and voids the guarantee. None is the
        operating system's entropy.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.
    snapshot : callable, optional
        Called with a `Snapshot` of the first private run at rounds 1, 2, 4, 8, ... and at its end.
    checkpoint : path-like, optional
        State file of the private learner, written during the run, at its end, and on an
        interrupt. Only with ``repeats=1``.
    resume : learner, optional
        A learner from `dpoco.load`, continued where it stopped: the stream's rows are new rounds
        for it, and the report speaks of these; without noise, a learner starts anew with them. It
        must have been built for the same problem.
    skip_played : bool, default False
        The stream holds the rounds that `resume` has played, too: as many rows are skipped. Without
        noise, these are played as well.
    **options
        Further arguments of the learner: calibration, noise, sum_method, batch, ...

    Returns
    -------
    RunReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, a `resume` that is of another problem or has no rounds left, or a stream
        without rows for it.
    CalibrationError
        If no noise scale meets the budget.
    """
    if not loss.glm:
        raise TypeError("compare_private needs a generalised linear loss")
    rounds = horizon_of(horizon, len(stream), resume)

    def build(source: Source | None, spent: Budget | None) -> Any:
        return learner(domain, loss, horizon=rounds, budget=spent, source=source, **options)

    def comparators(part: slice) -> Comparators:
        features, labels = stream.features[part], stream.labels[part]
        fixed = best_fixed_decision(domain, loss, features, labels)
        # A round with a missing record costs nobody anything.
        present = np.where(np.isfinite(features).all(axis=1), labels, np.nan)
        constant = best_constant_prediction(loss, present)
        return Comparators(
            fixed_facts(fixed),
            np.cumsum(loss.batch_values(domain, fixed.decision, features, labels)),
            {
                "prediction": constant.prediction,
                "average_loss": constant.average_loss,
                "total_loss": constant.total_loss,
            },
            np.cumsum(constant_losses(loss, constant.prediction, present)),
        )

    def noise(parameters: Any) -> dict[str, Any]:
        if learner is TreeFrankWolfe:
            return noise_levels(domain, loss, parameters, budget)
        return own_noise(parameters)

    game = Game(
        build=build,
        data=(stream.features, stream.labels),
        comparators=comparators,
        noise=noise,
        problem=("domain", "loss"),
        domain=domain.to_dict(),
        loss=loss.to_dict(),
        stream=stream.summary(),
        run_options={"record_decisions": False},
        options=options,
        nonprivate_flags=stream.nonprivate_flags,
    )
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


def compare_private_experts(
    losses: Any,
    learner: Callable[..., Any],
    *,
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
    **options: Any,
) -> RunReport:
    """Play a private learner of experts, and everything it should be compared with.

    As `compare_private`. The comparators: the same learner without noise, the best expert in
    hindsight, and an expert drawn anew each round, uniformly, in expectation.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts; rounds past the horizon are left out.
    learner : class
        Of `dpoco.experts`.
    stream : dict, optional
        Public facts about the stream for the report; ``name``, ``description``, ``scaling``.
    budget, horizon, repeats, seed, progress, snapshot, checkpoint, resume, skip_played, **options
        As in `compare_private`.

    Returns
    -------
    RunReport
        ``best_fixed`` is the best expert, ``best_constant`` the uniformly random one.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        As `compare_private`.
    """
    rows = float_array("losses", losses, (None, None))
    if rows.size == 0:
        raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
    rounds = horizon_of(horizon, len(rows), resume)
    experts = rows.shape[1]
    loss_range = checked_range(options.get("loss_range", (0.0, 1.0)))

    def build(source: Source | None, spent: Budget | None) -> Any:
        return learner(experts, horizon=rounds, budget=spent, source=source, **options)

    def comparators(part: slice) -> Comparators:
        read = admitted_losses(rows[part], *loss_range)
        best = best_expert(read, loss_range=loss_range)
        mean = np.cumsum(read.mean(axis=1))
        return Comparators(
            {
                "name": "best expert",
                "decision": best.decision,
                "average_loss": best.average_loss,
                "total_loss": best.total_loss,
                "gap": 0.0,
                "iterations": 0,
            },
            np.cumsum(read[:, best.decision]),
            {
                "name": "uniformly random expert",
                "average_loss": float(mean[-1]) / len(read),
                "total_loss": float(mean[-1]),
            },
            mean,
        )

    facts = {"name": "losses", "description": "Losses of experts", "scaling": "none"}
    game = Game(
        build=build,
        data=(rows,),
        comparators=comparators,
        noise=own_noise,
        problem=("experts",),
        domain={"type": "experts", "experts": experts},
        loss={"type": "losses of experts", "loss_range": list(loss_range)},
        stream={**facts, **(stream or {}), "dimension": experts},
        run_options={},
        options=options,
    )
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


def own_noise(parameters: Any) -> dict[str, Any]:
    """Scale of the noise where the parameters name one; what is published is not compared."""
    names = ("paper_scale", "paper_released", "scale_ratio", "released_ratio")
    scale = getattr(parameters, "noise_scale", getattr(parameters, "scale", None))
    return {"scale": scale, "released": None, **dict.fromkeys(names)}


def fixed_facts(fixed: FixedDecision) -> dict[str, Any]:
    """Return what a report holds of the best fixed decision."""
    return {
        "decision": fixed.decision.tolist(),
        "average_loss": fixed.average_loss,
        "total_loss": fixed.total_loss,
        "gap": fixed.gap,
        "iterations": fixed.iterations,
    }
