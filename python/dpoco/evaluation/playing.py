"""How a private run and its comparators are played and measured, for any learner."""

from __future__ import annotations

import inspect
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._clipping import Flags
from dpoco._encryption import EncryptionKey, given_key
from dpoco._validation import Fields, FloatArray, positive_int, whole_number
from dpoco.accounting import Budget, continual_sum
from dpoco.accounting.gaussian import coordinate_variance
from dpoco.accounting.tree_frank_wolfe import TreeTuning
from dpoco.errors import CalibrationError
from dpoco.evaluation import _runs as running
from dpoco.evaluation.games import Game
from dpoco.evaluation.reports import Curves, PlayedRuns, RunReport
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.learner import Progress
from dpoco.learning.participation import Participation
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.published import han_frank_wolfe
from dpoco.random import Source
from dpoco.trace import RecordShares, average_over, beyond_flags

Step = Callable[[str, int, int], None]


def describe_noise(game: Game, plan: AnyPlan, budget: Budget) -> Fields:
    """Return the noise of a run, and that of the published constants if they are compared."""
    names = ("paper_scale", "paper_released", "scale_ratio", "released_ratio")
    # If a bandit has one learner per arm, the numbers are those of the first arm's learner.
    holder = getattr(plan.mechanism, "parts", (plan.mechanism,))[0]
    scale: Any = getattr(holder, "noise_scale", getattr(holder, "scale", None))
    record: Fields = {"scale": scale, "released": None, **dict.fromkeys(names)}
    if not isinstance(plan.tuning, TreeTuning):
        return record
    record["released"] = released_deviations(holder, game.problem[0].dimension)[1]
    if "participation" in game.options:  # the published constants are for single rounds
        return record
    try:  # the published algorithm updates in every round
        paper = han_frank_wolfe.tree_frank_wolfe(
            *game.problem, horizon=plan.tuning.horizon, budget=budget,
            step_scale=plan.tuning.step_scale,
        )  # fmt: skip
    except CalibrationError:  # the published constants miss this budget, so there is no comparison
        return record
    released = released_deviations(paper.mechanism, game.problem[0].dimension)[1]
    theirs = paper.mechanism.scale
    ratios = theirs / scale, released / record["released"]
    return record | dict(zip(names, (theirs, released, *ratios), strict=True))


def released_deviations(total: GaussianSum, dimension: int) -> tuple[float, float]:
    """Return the standard deviations of a coordinate of a draw, and of the noisiest sum."""
    one = float(total.scale * np.sqrt(coordinate_variance(total.order, dimension)))
    return one, one * continual_sum.worst_row_norm(total.factorisation, total.pushes)


def versions() -> dict[str, str]:
    """Versions that affect the numbers of a report."""
    python = platform.python_version()
    return {"dpoco": _core.__version__, "numpy": np.__version__, "python": python}


def compare_private(
    game: Game,
    budget: Budget,
    *,
    repeats: int = 1,
    seed: int | None = None,
    progress: Step | None = None,
    snapshot: Callable[[running.Snapshot], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    key: EncryptionKey | None = None,
    resume: Any = None,
    skip_played: bool = False,
    released: Callable[[Any], None] | None = None,
) -> RunReport:
    """Play a private learner together with its comparators.

    The comparators are the same learner without noise, and those of the game, which are the best in
    hindsight. The report is for evaluation: it is **not private**.

    A one-time fit has no rounds: its decision is evaluated on the records of its fit, which it has
    used. Its regret is its loss above that of the best decision for these records.

    Parameters
    ----------
    game : Game
        From `game_of_records`.
    budget : Budget
        Budget of one run, or fit. Each repetition spends it again. With a participation, the budget
        covers all rounds of a person.
    repeats : int, default 1
        Number of private runs, with independent noise.
    seed : int, optional
        Makes the report reproducible except for its timing, and voids the guarantee. None: the
        operating system's entropy.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.
    snapshot : callable, optional
        Called with a `Snapshot` of the first private run at rounds 1, 2, 4, 8, ... and at its end.
    checkpoint : path-like, optional
        State file of the private learner, written during the run, at its end, and on an
        interrupt. Only with ``repeats=1``.
    key : EncryptionKey, optional
        Encrypts the checkpoint; default: the key with which `resume` was loaded.
    resume : learner, optional
        A learner from `dpoco.load`, which continues where it stopped. The game's rows are new
        rounds for it, and the report is about these rows; the learner without noise starts with
        them. It must have been built for the same problem.
    skip_played : bool, default False
        The game also contains the rounds that `resume` has played, and as many rows are skipped.
        The learner without noise also plays these rows.
    released : callable, optional
        Called with the first private learner after its run.

    Returns
    -------
    RunReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, for a `resume` of another problem or without rounds left, for a game
        without rows for it, for an enforced participation without persons, and for a checkpoint
        of a one-time fit, which has no rounds to continue; nothing has been played.
    CalibrationError
        If no noise scale meets the budget.
    """
    started = time.perf_counter()
    count = positive_int("repeats", repeats, maximum=10**6)
    if count > 1 and (checkpoint is not None or resume is not None):
        raise ValueError("a checkpoint needs a single private run: repeats must be 1")
    # A plain int, because NumPy integers cannot be written to JSON.
    seed = None if seed is None else whole_number("seed", seed)
    root = Source() if seed is None else Source.seeded(seed)  # seeds all runs
    given = len(game.data[0])
    once = "records" in inspect.signature(game.learner).parameters
    if once:
        if checkpoint is not None or resume is not None:
            raise ValueError("a one-time fit has no rounds to continue: it takes no checkpoint")
        game = replace(game, horizon=min(given, game.horizon))
    learner = game.build(budget, root) if resume is None else resume
    # Before the first round, so that every checkpoint is encrypted and states how records were
    # read.
    if not once:
        learner._key = given_key("key", key, learner._key)
        learner._described = game.described or learner._described
    if resume is not None:
        _check_same_problem(resume, game.build(budget), game)
    first = 0 if once else learner.round
    # All refusals come before the first round, because noise is spent once.
    rows = _played_rows(first, given, game.horizon, skip_played)
    data = tuple(column[rows] for column in game.data)
    length, counted = len(data[0]), game.counted[rows]
    # The learner without noise also plays the skipped rows, and needs their people.
    persons = None if game.persons is None else game.persons[: rows.stop]
    own = None if persons is None else persons[rows.start :]
    running.check_people(learner, own, length)
    tell = (lambda *_: None) if progress is None else progress

    tell("comparators", 0, 1)
    # Before the runs, because snapshots state the regret so far.
    compared = game.comparators(rows)
    fixed = np.cumsum(compared.fixed_losses)
    tell("comparators", 1, 1)

    runs: list[tuple[FloatArray, int, NDArray[np.bool_]]] = []
    seconds: list[float] = []
    for index in range(count):
        player = learner if index == 0 else game.build(budget, root)
        begun = time.perf_counter()
        told = running.share_progress(partial(tell, "private"), index, count)
        shown = snapshot if index == 0 and not once else None
        runs.append(_play(player, data, told, checkpoint, shown, fixed, counted, own))
        seconds.append(time.perf_counter() - begun)
    if released is not None:
        released(learner)

    begun = time.perf_counter()
    # Played once, because without noise runs only differ by the draws of decisions, if at all.
    free = running.play(
        game.build(None, _without_noise(seed)),
        *(column[: rows.stop] for column in game.data),
        record_decisions=False,
        progress=partial(tell, "without noise"),
        persons=persons,
    )
    free_seconds = time.perf_counter() - begun

    free_losses = free.losses[rows.start :]
    private = np.stack([np.cumsum(losses) for losses, _, _ in runs])
    nonprivate = np.cumsum(free_losses)
    free_switches = int(np.count_nonzero(free.switches >= rows.start))

    def measure(losses: FloatArray) -> dict[str, float]:
        kind, labels = str(game.loss.get("type")), np.asarray(data[1], np.float64)
        return measure_run(kind, losses, compared.constant_losses, labels, counted)

    def gather(each: list[FloatArray], sums: FloatArray, switches: list[int]) -> PlayedRuns:
        regrets = (float(total - fixed[-1]) for total in sums[:, -1])
        averages = (average_over(losses, counted) for losses in each)
        return PlayedRuns(tuple(averages), tuple(regrets), tuple(switches))

    read = {key: flags[rows] for key, flags in game.nonprivate_flags.items()}
    records = _records(game, counted, free._flags(rows), beyond_flags(runs[0][2]), read)
    return RunReport(
        stream={**game.stream, "rounds": rows.stop},
        settings={
            **budget.to_dict(),
            "records" if once else "horizon": game.horizon,
            "repeats": count,
            "seed": seed,
            **{name: _plain(value) for name, value in game.options.items()},
            **({"chosen": game.chosen} if game.chosen else {}),
        },
        domain=game.domain,
        loss=game.loss,
        parameters={name: _plain(value) for name, value in learner.plan.to_dict().items()},
        guarantee=learner.guarantee.to_dict(),
        guarantee_text=str(learner.guarantee),
        versions=versions(),
        noise=describe_noise(game, learner.plan, budget),
        private=gather([run[0] for run in runs], private, [run[1] for run in runs]),
        nonprivate=gather([free_losses], nonprivate[None, :], [free_switches]),
        best_fixed=compared.fixed,
        best_constant=compared.constant,
        curves=Curves.of(
            private, nonprivate, fixed, np.cumsum(compared.constant_losses), np.cumsum(counted)
        ),
        timing={
            "private_seconds": seconds,
            "nonprivate_seconds": free_seconds,
            "total_seconds": time.perf_counter() - started,
            # A coarse clock may measure no time for a short run.
            "rounds_per_second": length * count / max(sum(seconds), 1e-9),
        },
        first_round=first,
        rows={"skipped": rows.start, "played": length, "beyond_horizon": given - rows.stop},
        nonprivate_records=records,
        accuracy={
            "private": middle([measure(losses) for losses, _, _ in runs]),
            "without noise": measure(free_losses),
            "best fixed decision": measure(compared.fixed_losses),
            "best constant prediction": measure(compared.constant_losses),
        },
    )


def _records(game: Game, counted: NDArray[np.bool_], *flags: Flags) -> Fields:
    """Return how records were read: the counted ones, and those from which nothing was learned."""
    shares = RecordShares.of(*flags, names=game.stream.get("feature_names"))
    learned = counted.copy()
    for each in flags:
        learned &= ~each.get("empty", np.zeros(len(counted), dtype=bool))
    return {
        **asdict(shares),
        "counted": int(np.count_nonzero(counted)),
        "learned": int(np.count_nonzero(learned)),
    }


def _without_noise(seed: int | None) -> Source | None:
    """Return a source for runs without privacy, because some learners draw their decisions."""
    # It only depends on the seed, and not on the draws of private runs.
    return None if seed is None else running.SeedTree(seed).child("without noise").source()


def _played_rows(first: int, given: int, horizon: int, skip_played: bool) -> slice:
    """Return the rows to play for a learner after `first` rounds; at least one row."""
    if first >= horizon:
        raise ValueError(f"the horizon of {horizon} rounds is used up: no row is played")
    skipped = first if skip_played else 0
    if skipped >= given:
        raise ValueError("the saved learner has already played every round of the stream")
    return slice(skipped, min(given, skipped + horizon - first))


def _play(
    learner: Any,
    data: tuple[Any, ...],
    progress: Progress,
    checkpoint: str | os.PathLike[str] | None,
    snapshot: Callable[[running.Snapshot], None] | None,
    compared: FloatArray,
    counted: NDArray[np.bool_],
    persons: Any,
) -> tuple[FloatArray, int, NDArray[np.bool_]]:
    """Return the losses of a run, how often the decision changed, and which records came too often.

    `compared` are sums of losses; averages are over the `counted` rounds.
    """
    first, rounds = getattr(learner, "round", 0), len(data[0])
    beyond = np.zeros(rounds, dtype=bool)
    parts = [slice(0, rounds)] if snapshot is None else running.doubling_parts(first, rounds)
    losses = np.empty(0)
    switches = 0
    try:
        for part in parts:

            def report(done: int, total: int, part: slice = part) -> None:
                progress(part.start + done, rounds)

            trace = running.play(
                learner, *(column[part] for column in data), record_decisions=False,
                progress=report, checkpoint=checkpoint,
                persons=None if persons is None else persons[part],
            )  # fmt: skip
            own = trace.losses
            losses = np.concatenate([losses, own])
            if getattr(trace, "_beyond", None) is not None:
                beyond[part] = trace._beyond
            switches += len(trace.switches)
            if snapshot is not None:
                seen = running.Snapshot(
                    round=first + len(losses),
                    average_loss=average_over(losses, counted[: len(losses)]),
                    since_last=average_over(own, counted[part]),
                    regret=float(losses.sum() - compared[len(losses) - 1]),
                    switches=switches,
                    epsilon=learner.guarantee.epsilon,
                )
                snapshot(seen)
    except KeyboardInterrupt:
        # Rounds since the last checkpoint have used their noise. If they are not in the file, a
        # continued run would use it again.
        if checkpoint is not None:
            learner.save(checkpoint)
        raise
    return losses, switches, beyond


def _check_same_problem(resumed: Any, fresh: Any, game: Game) -> None:
    """Raise `ValueError` unless a saved learner has the game's problem, plan and participation."""
    if type(resumed) is not type(fresh):
        raise ValueError("the saved learner has another class than the requested one")
    differing = [name for name in game.fixes if getattr(resumed, name) != getattr(fresh, name)]
    # A plan does not contain whether a rule is enforced, but a state does.
    if resumed.get_params()["participation"] != fresh.get_params()["participation"]:
        differing.append("participation")
    if differing:
        raise ValueError(
            f"the saved learner, of epsilon = {resumed.guarantee.epsilon:.6g}, differs in its "
            f"{' and '.join(differing)}: repeat the options that it began with"
        )


def _plain(value: object) -> object:
    """Return an option in a JSON-able form that is read back as an equal value."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Participation):
        return value.to_dict()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


# ---- measures of predictions that users know -----------------------------------------------------
# They follow from the losses of a run and the labels, so decisions need not be kept: a logistic
# loss is -log of the probability given to the label.


def measure_classes(losses: FloatArray, labels: FloatArray) -> dict[str, float]:
    """Return error rate and AUC of predicted probabilities.

    Parameters
    ----------
    losses : ndarray of float64, shape (T,)
        Logistic losses of the predictions.
    labels : ndarray of float64, shape (T,)
        0 or 1. If all labels are equal, there is no AUC.

    Notes
    -----
    A prediction is wrong if it gave its label a probability below 1/2; exactly 1/2 counts as half
    an error. Time O(T log T).
    """
    right = np.exp(-losses)
    # A margin of 0 has the loss ln 2 up to rounding errors, which would decide `right < 0.5`.
    even = np.isclose(losses, math.log(2.0), rtol=1e-12, atol=0.0)
    wrong = np.where(even, 0.5, right < 0.5)
    found = {"error_rate": float(np.mean(wrong))}
    ones = labels == 1.0
    count = int(np.count_nonzero(ones))
    others = len(labels) - count
    if count and others:
        score = np.round(np.where(ones, right, 1.0 - right), 12)  # equal scores are ties
        _, place, ties = np.unique(score, return_inverse=True, return_counts=True)
        # Ties share the mean of their ranks.
        ranks = (np.cumsum(ties) - 0.5 * (ties - 1))[place]
        # The Mann-Whitney statistic; the AUC is its share of all pairs.
        excess = float(ranks[ones].sum()) - 0.5 * count * (count + 1)
        found["auc"] = excess / (count * others)
    return found


def measure_run(
    loss: str,
    losses: FloatArray,
    constant: FloatArray,
    labels: FloatArray,
    known: NDArray[np.bool_],
) -> dict[str, float]:
    """Return the measures of a run on records; {} if there are none for this loss.

    `loss` is the name of its class, `constant` has the losses of the best constant prediction, and
    `known` marks the rounds whose data are not missing.
    """
    if loss == "SquaredLoss":
        spread = float(constant[known].sum())
        return {"r2": 1.0 - float(losses[known].sum()) / spread} if spread > 0.0 else {}
    own = labels[known]
    if loss != "LogisticLoss" or not len(own) or not np.all((own == 0.0) | (own == 1.0)):
        return {}
    return measure_classes(losses[known], own)


def middle(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each measure over repeated runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
