"""From the options of ``dpoco run`` and ``dpoco compare`` to games.

What a learner learns from decides which game is played. Classes are the arms of bandits. For
Lipschitz losses a decision is a number that should be near the column's next value, or a point near
the next values of two columns; the losses are those that quantiles and geometric medians minimise.

Every default is a function of public quantities alone: the number of rounds, of columns, the loss.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import datasets
from dpoco._choice import UNKNOWN, UPDATES, choose
from dpoco._validation import (
    LARGEST_HORIZON,
    FloatArray,
    choice,
    named,
    positive_float,
    positive_int,
)
from dpoco.accounting import Budget
from dpoco.cli._options import (
    given_options,
    parse_range,
    participation_of,
    refuse_useless,
    sources_of,
)
from dpoco.datasets import PublicScaling, Stream
from dpoco.domains import Box, LpBall
from dpoco.evaluation import games
from dpoco.learners import Learner, learner_named
from dpoco.losses import HuberLoss, LogisticLoss, SquaredLoss

FAMILIES = ("records", "experts", "arms", "surface", "batch")
STREAMS_OF_LOSSES = ("pollsters", "stocks")
_AUTO = Learner("auto", "", "records", "the learner of the least expected regret", ball=2.0)
_LOSSES = {"huber": HuberLoss, "logistic": LogisticLoss, "squared": SquaredLoss}
# Euclidean length of the largest decision. Logistic: a confident answer needs margins of several
# units; chosen after runs on the shuttle stream with 2 to 16, where 6 to 12 are equally good.
# Regression: labels are scaled to [-1, 1].
_DECISION_LENGTH = {"logistic": 8.0, "squared": 1.0, "huber": 1.0}
_MOST_CLASSES = 4096  # rewards are a table of rounds x classes


def learners_of(
    names: Sequence[str], families: Collection[str], asked: Mapping[str, Any]
) -> list[Learner]:
    """Return learners by name; "auto" is of experts where others or the options are."""
    found = [_AUTO if name == _AUTO.name else learner_named(name, families) for name in names]
    of_experts = asked["loss_range"] is not None or asked["stream"] in STREAMS_OF_LOSSES
    of_experts = of_experts or any(entry.plays == "experts" for entry in found)
    auto = replace(_AUTO, plays="experts") if of_experts else _AUTO
    return [auto if entry is _AUTO else entry for entry in found]


def games_of(entries: Sequence[Learner], asked: Mapping[str, Any]) -> list[games.Game]:
    """Return the games of learners on the same stream, which is loaded once.

    Parameters
    ----------
    entries : sequence of Learner
        All of records (or one-time fits), of experts, of arms or of functions.
    asked : mapping
        Options of the command, by name, as in `UNASKED`.
    """
    families = {"records" if entry.plays == "batch" else entry.plays for entry in entries}
    if len(families) > 1:
        raise ValueError("learners of records, of experts and of arms have no stream in common")
    for entry in entries:
        refuse_useless(entry, asked)
    participation_of(asked)
    if asked["data"] is not None and asked["stream"] is not None:
        raise ValueError("--data and --stream exclude each other")
    if asked["synthetic"] is not None and not (asked["data"] is asked["stream"] is None):
        raise ValueError("--synthetic goes without --data and --stream")
    described = ("features", "feature_range", "label_range", "loss_range", "header", "person")
    if asked["data"] is None and not (
        asked["intercept"] and all(asked[name] in (None, []) for name in described)
    ):
        raise ValueError("options that describe a file need --data FILE")
    columns = asked["features"]
    if columns is not None:
        columns = [name.strip() for name in columns.split(",")]
    family, person = families.pop(), asked["person"]
    asked = {**asked, "features": columns}
    people = None
    if asked["data"] is not None:
        asked["data"] = sources_of(asked["data"])
        sources, header, label = asked["data"], asked["header"], asked["label"]
        if person is not None:
            people = datasets.read_people(sources, person, header=header)
            if person in (label, *(columns or ())):
                raise ValueError("--person must name a column that nothing is learned from")
            if columns is None and family != "surface":
                named = datasets.column_names(sources, header=header)
                asked["features"] = [name for name in named if name not in (label, person)]
                if not asked["features"]:
                    raise ValueError("there is no column to learn from besides --person")
        if family in ("records", "arms"):
            asked["feature_range"] = described_ranges(family, asked)
    found = _GAMES[family](entries, asked)
    return found if people is None else [replace(game, persons=people) for game in found]


def described_ranges(family: str, asked: Mapping[str, Any]) -> list[str]:
    """Return the ranges of columns, those of yes and no added; ask for all that is missing at once.

    The columns' names and kinds are read from the files; their ranges are not, ever.
    """
    kinds = datasets.column_kinds(asked["data"], header=asked["header"])
    label, given = asked["label"], list(asked["feature_range"] or ())
    columns = asked["features"] or [name for name in kinds if name not in (label, asked["person"])]
    named = {text.rpartition("=")[0] for text in given}
    strangers = {*columns, *named, label} - {*kinds, "", None}
    if strangers or label in columns:
        return given  # what reads the files says it
    open_ = [name for name in columns if "" not in named and name not in named]
    texts = [name for name in columns if kinds[name] == "text"]
    numbers = [name for name in open_ if kinds[name] == "numbers"]
    missing = []
    if label is None:
        missing.append("--label COLUMN, what is to be predicted")
    elif family == "records" and asked["loss"] != "logistic" and asked["label_range"] is None:
        missing.append(f"--range {label}=LOW:HIGH, the public range of the label")
    if texts:
        missing.append(f"--features A,B,... without the columns of text: {', '.join(texts)}")
    if numbers:
        missing.append(
            f"--range COLUMN=LOW:HIGH for {', '.join(numbers)} (or --feature-range LOW,HIGH for "
            "all): public ranges, from knowledge, never from the records"
        )
    if missing:
        shown = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise ValueError(f"the columns are {shown}. Still needed: {'; '.join(missing)}")
    return given + [f"{name}=0,1" for name in open_ if kinds[name] == "yes or no"]


def _covered(asked: Mapping[str, Any], rounds: int) -> int:
    return positive_int("horizon", rounds if asked["horizon"] is None else asked["horizon"])


def _known_horizon(covered: int) -> int | None:
    """Return how many rounds are covered, or None for a stream without an end."""
    return None if covered == LARGEST_HORIZON else covered


def _taken(
    entry: Learner, problem: Any, covered: int, asked: Mapping[str, Any], **more: Any
) -> tuple[Learner, dict[str, Any], str]:
    """Return a learner, its options, and why it is taken, if it is for the library to choose."""
    if entry.name != _AUTO.name:
        return entry, given_options(entry, asked), ""
    budget = Budget._over(asked["epsilon"], asked["delta"], covered)
    # Without an end, it must learn soon.
    more |= {"horizon": _known_horizon(covered), "participation": participation_of(asked)}
    ranked = choose(problem, budget=budget, **more)
    resumed = asked.get("resumed")  # stays what it is, though another may be better by now
    same = (each for each in ranked if resumed is not None and each.is_of(resumed))
    chosen = next(same, ranked[0])
    entry = learner_named(chosen.learner.partition(".")[2])
    common = given_options(entry, {**asked, "switches": None})
    return entry, common | chosen.options, str(chosen)


# ---- records -------------------------------------------------------------------------------------


def _load_stream(asked: Mapping[str, Any], loss: str, label_range: str | None) -> Stream:
    """Load the file, or a bundled stream by name, scaled by the declared public ranges.

    Without either, the shuttle stream; on a Python whose river does not have it yet, the shorter
    phishing stream.
    """
    label = asked["label"]
    if asked["data"] is None:
        if label is not None:
            raise ValueError("options that describe a file need --data FILE")
        if asked["synthetic"] is not None:
            if loss != "squared":
                raise ValueError("--synthetic needs --loss squared: it is a regression")
            return datasets.linear_regression_stream(asked["synthetic"], 10, seed=0)
        if asked["stream"] is not None:
            return datasets.load(asked["stream"])
        try:
            return datasets.load_shuttle()
        except ImportError:
            return datasets.load_phishing()
    if label is None:
        raise ValueError("--data needs --label COLUMN")
    scaling = None
    if label_range is not None:
        scaling = PublicScaling(*parse_range("--label-range", label_range), intercept=False)
    stream = datasets.load_file(
        asked["data"],
        label=label,
        features=asked["features"] or None,
        header=asked["header"],
        label_scaling=scaling,
        task="classification" if loss == "logistic" else "regression",
    )
    if label_range is not None and loss == "logistic":  # [-1, 1] to [0, 1]
        stream = replace(stream, labels=(stream.labels + 1.0) / 2.0)
    general, own = (-1.0, 1.0), {}  # one range for all columns, and those of single ones
    for text in asked["feature_range"] or []:
        column, mark, rest = text.rpartition("=")
        interval = parse_range("--feature-range", rest)
        if not mark:
            general = interval
        elif column in stream.feature_names:
            own[column] = interval
        else:
            raise ValueError(f"--feature-range names {column!r}, which is no feature column")
    ranges = [own.get(name, general) for name in stream.feature_names]
    low, high = zip(*ranges, strict=True)
    return stream.scaled(PublicScaling(low, high, intercept=asked["intercept"]))


def _problem_of(asked: Mapping[str, Any], dimension: int, ball: float) -> tuple[LpBall, Any]:
    """Return domain and loss, in a ball of the exponent `ball` if none was asked for."""
    name = asked["loss"]
    p = ball if asked["p"] is None else float(asked["p"])
    radius = asked["radius"]
    if radius is None:
        radius = _DECISION_LENGTH[name] / LpBall(dimension, p, 1.0).max_norm(2.0)
    domain = LpBall(dimension, p, radius)
    # Root mean square length of a record spread evenly over the cube [-1, 1]^d.
    length = math.sqrt(dimension / 3.0)
    if asked["feature_bound"] is not None:
        length = positive_float("feature_bound", asked["feature_bound"])
    bounds: dict[str, Any] = {"feature_bound": _dual_bound(length, domain)}
    if domain.dual_exponent != 2.0:
        bounds["feature_bound_l2"] = length
    if asked["slope_bound"] is not None:
        if name != "logistic":
            raise ValueError("--slope-bound is for --loss logistic")
        bounds["slope_bound"] = asked["slope_bound"]
    return domain, _LOSSES[name](**bounds)


def _records(entries: Sequence[Learner], asked: Mapping[str, Any]) -> list[games.Game]:
    name = choice("loss", asked["loss"], _LOSSES)
    stream = _load_stream(asked, name, asked["label_range"])
    covered = _covered(asked, len(stream))
    found = []
    for entry in entries:
        domain, loss = _problem_of(asked, stream.dimension, entry.ball or 2.0)
        entry, options, why = _taken(entry, (domain, loss), covered, asked)
        if entry.name == "tree-frank-wolfe":
            rounds = _known_horizon(covered) or UNKNOWN
            batch = 1 if options["calibration"] == "paper" else max(1, rounds // UPDATES)
            standard = {"noise": None, "sum_method": None, "step_scale": 1.0, "batch": batch}
            options = {**standard, **options}
        if entry.name == "noisy-ftrl" and options.get("statistics") != "quadratic":
            # For what is to be expected, not for the worst case.
            options = {"step_size": "predicted", **options}
        horizon = min(covered, len(stream)) if entry.plays == "batch" else covered
        game = games.game_of_records(entry.load(), stream, domain, loss, horizon=horizon, **options)
        found.append(replace(game, chosen=why))
    return found


def _dual_bound(length: float, domain: LpBall) -> float:
    """Largest ``||x||_q`` over records of the cube [-1, 1]^d with ``||x||_2 <= length``.

    For q >= 2, ``sum |x|^q <= sum x^2``; for q < 2, Hoelder's inequality. Declaring it clips
    nothing further.
    """
    q, d = domain.dual_exponent, domain.dimension
    longest = min(length, math.sqrt(d))
    if math.isinf(q):
        return min(1.0, longest)
    if q >= 2.0:
        return min(longest, math.pow(longest, 2.0 / q))
    return longest * math.pow(d, 1.0 / q - 0.5)


# ---- experts, arms, functions --------------------------------------------------------------------


def _experts(entries: Sequence[Learner], asked: Mapping[str, Any]) -> list[games.Game]:
    declared = asked["loss_range"]
    if asked["data"] is None:
        losses, facts = datasets.load_losses(asked["stream"] or "pollsters")
    else:
        path, header = asked["data"], asked["header"]
        wanted = list(asked["features"] or datasets.column_names(path, header=header))
        if len(wanted) < 2:
            raise ValueError("losses must be at least two columns, one an expert")
        losses = datasets.read_columns(path, wanted, header=header)
        facts = _facts_of(path, "Losses of experts in", declared or "0,1", wanted)
    more = {} if declared is None else {"loss_range": parse_range("--loss-range", declared)}
    covered = _covered(asked, len(losses))
    shifts = {"switches": asked["switches"], "adversary": "shifting"} if asked["switches"] else {}
    found = []
    for entry in entries:
        entry, options, why = _taken(entry, losses.shape[1], covered, asked, **shifts)
        game = games.game_of_experts(
            entry.load(), losses, horizon=covered, stream=facts, **options, **more
        )
        found.append(replace(game, chosen=why))
    return found


def _facts_of(sources: list[Any], about: str, declared: str, columns: list[str]) -> dict[str, Any]:
    name = getattr(sources[0], "name", "standard input")
    if len(sources) > 1:
        name += f" and {len(sources) - 1} more"
    return {
        "name": name,
        "description": f"{about} {name}",
        "scaling": f"declared range {declared}, clipped",
        "feature_names": columns,
    }


def _arms(entries: Sequence[Learner], asked: Mapping[str, Any]) -> list[games.Game]:
    if asked["radius"] is not None and all(entry.name == "linucb" for entry in entries):
        raise ValueError("linucb has no --radius: its coefficients are not bounded")
    low, high = 0.0, 1.0
    if asked["label_range"] is not None:
        low, high = parse_range("--label-range", asked["label_range"])
    if not (low.is_integer() and high.is_integer()):
        raise ValueError("--label-range must be whole numbers: the first class and the last")
    if high - low >= _MOST_CLASSES:
        raise ValueError(f"--label-range names more than {_MOST_CLASSES} classes")
    stream = _load_stream(asked, "squared", None)  # labels as they are
    rewards = games.class_rewards(stream.labels, int(high - low) + 1, first=int(low))
    if not np.any(rewards == 1.0):
        raise ValueError(
            f"no label of {stream.name} is a class in {low:g}..{high:g}: name the first class and "
            "the last with --label-range"
        )
    unknown = np.isfinite(stream.labels) & ~np.any(rewards == 1.0, axis=1)
    flags = {**stream.nonprivate_flags, "unknown_label": unknown}
    facts = {
        **replace(stream, task="classification").summary(),
        "arms": rewards.shape[1],
        "rewards": "1 for the arm of the label's class, 0 for the others; 1/2 if it is missing",
    }
    found = []
    for entry in entries:
        options = given_options(entry, asked)
        if entry.name == "linucb":
            # Root mean square length of a record spread evenly over the cube.
            bound = math.sqrt(stream.dimension / 3.0)
        else:
            bound = 1.0  # of every entry
            radius = 1.0 if asked["radius"] is None else asked["radius"]
            options["domain"] = LpBall(stream.dimension, 1.0, radius)
        given = asked["feature_bound"]
        options["context_bound"] = bound if given is None else given
        found.append(
            games.game_of_arms(
                entry.load(), stream.features, rewards, horizon=_covered(asked, len(stream)),
                stream=facts, nonprivate_flags=flags, **options,
            )
        )  # fmt: skip
    return found


def _pinball(quantile: float, target: float, points: FloatArray) -> FloatArray:
    """Return q (y - x) where x is too small, (1 - q) (x - y) where it is too large."""
    short = target - points[:, 0]
    loss: FloatArray = np.where(short > 0.0, quantile, quantile - 1.0) * short + 0.0
    return loss


def _distance(target: FloatArray, points: FloatArray) -> FloatArray:
    """Return Euclidean distances."""
    distance: FloatArray = np.sqrt(np.sum((points - target) ** 2, axis=1))
    return distance


def _functions(entries: Sequence[Learner], asked: Mapping[str, Any]) -> list[games.Game]:
    label, declared = asked["label"], asked["label_range"]
    wanted = None if label is None else [part.strip() for part in label.split(",")]
    low, high = 0.0, 1.0
    if asked["data"] is None:
        table, facts = datasets.load_losses(asked["stream"] or "pollsters")
        names = list(facts["feature_names"])
        wanted = wanted or names[:1]
        values = table[:, [names.index(named("column", each, names)) for each in wanted]]
        facts["feature_names"] = wanted
    else:
        if wanted is None or declared is None:
            raise ValueError("--data needs --label COLUMN and --label-range LOW,HIGH")
        low, high = parse_range("--label-range", declared)
        path = asked["data"]
        values = datasets.read_columns(path, wanted, header=asked["header"])
        facts = _facts_of(path, "Values of", declared, wanted)
    if len(wanted) > 2 or len(set(wanted)) < len(wanted):
        raise ValueError("--label must name one column, or two different ones")
    flags: dict[str, NDArray[np.bool_]] = {
        "missing": ~np.isfinite(values), "out_of_range": (values < low) | (values > high),
    }  # fmt: skip
    targets = np.clip(values, low, high)
    if len(wanted) == 2:
        if asked["quantile"] is not None:
            raise ValueError("--quantile is of one column; of two, the geometric median is learned")
        losses: list[Any] = [partial(_distance, row) for row in targets]
        slope, what = 1.0, "distance"
    else:
        q = 0.5 if asked["quantile"] is None else asked["quantile"]
        if not 0.0 < q < 1.0:
            raise ValueError("--quantile must be between 0 and 1")
        losses = [partial(_pinball, q, float(value)) for value in targets[:, 0]]
        slope, what = max(q, 1.0 - q), f"pinball loss of the quantile {q:g}"
    domain = Box([low] * len(wanted), [high] * len(wanted))
    return [
        games.game_of_functions(
            losses, domain, lipschitz=slope, horizon=_covered(asked, len(losses)),
            stream={**facts, "loss": what}, nonprivate_flags=flags, **given_options(entry, asked),
        )
        for entry in entries
    ]  # fmt: skip


_GAMES = {"records": _records, "experts": _experts, "arms": _arms, "surface": _functions}
