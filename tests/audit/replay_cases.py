"""Learners with streams and neighbours to replay: all exercises, and options that they lack."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from dpoco.audit._exercises import EXERCISES, Exercise
from dpoco.audit._family import Make, Record, Stream
from dpoco.audit._kinds import find_family
from dpoco.bandits import HighDimensionalBandit, LinUCB, ResidualPhases
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
    LipschitzLearner,
    NoisyFTRL,
    NoisyNewton,
)
from dpoco.privacy.mechanisms.coupled_draws import Dartboard, Window
from dpoco.random import Source

BALL = LpBall(3, 2.0)
VERTICES = VertexSet([[0, 1, 0], [1, 0, 0], [0, 0, -1]])
ARMS = {"context_bound": 1.0, "reward_bound": 1.0}
WARM = {
    "anchors": 0,
    "draw": functools.partial(replace, inverse_temperature=0.5, regularization=8.0),
}
MORE = [
    Exercise(TreeFrankWolfe, (Simplex(3), LogisticLoss(1.0)),
             {"relation": "zero_out", "sum_method": "tree"}),
    Exercise(PolyhedralFrankWolfe, (VERTICES, LinearLoss(1.0)), {"batch": 3}),
    Exercise(NoisyFTRL, (BALL, SquaredLoss(1.0, 1.0)),
             {"statistics": "quadratic", "running_loss": True}),
    Exercise(NoisyNewton, (BALL, LogisticLoss(1.0)), {"half_life": 8.0}),
    Exercise(CoupledRegularizedLeader, (BALL, LogisticLoss(1.0)),
             changes={"block": 1, "cap": 8, "keep": Window(0.5, 0.3, 0.3)}),
    Exercise(ContinuousMultiplicativeWeights, (BALL, LogisticLoss(1.0)),
             changes={**WARM, "block": 1, "cap": 8, "keep": Dartboard(0.5, 2.0)}),
    Exercise(ContinuousMultiplicativeWeights, (BALL, QuadraticLoss(3.0, 1.0)),
             changes={**WARM, "block": 2, "cap": 2, "keep": Dartboard(0.5, 6.0)}),
    Exercise(PrefixHedge, (5,), {"sum_method": "blt_normalised", "loss_range": (-1.0, 3.0)}),
    Exercise(LipschitzLearner, (Box([0.0] * 2, [1.0] * 2),), {"lipschitz": 1.0, "resolution": 4}),
    Exercise(LinUCB, (2, 3), {"batch": 2, "half_life": 9.0, **ARMS}),
    Exercise(ResidualPhases, (2, 3), {"half_life": 12.0, **ARMS}),
    Exercise(ResidualPhases, (2, 3), {"reward_noise": 0.4, "intercept": 0.1, **ARMS}),
    Exercise(HighDimensionalBandit, (2, LpBall(3, 1.0)),
             {"batch": 2, "arm_learner": "tree", "forced_rounds": 0, "link": "logistic",
              "sum_method": "tree", "relation": "zero_out", "context_bound": 1.0}),
]  # fmt: skip
CASES: dict[str, Exercise] = {}
for _each in (*(each for rows in EXERCISES.values() for each in rows), *MORE):
    _sizes = [getattr(each, "dimension", each) for each in _each.arguments]
    _told = [f"{key} {value}" for key, value in _each.settings.items()
             if key not in (*ARMS, "defaults, of size")]  # fmt: skip
    _name = ", ".join([_each.cls.__name__, *(str(n) for n in _sizes if type(n) is int), *_told])
    CASES[_name] = _each


@functools.cache
def case(name: str) -> tuple[Make, Stream, list[Record]]:
    """Return a maker that is calibrated once, a stream, and replaced records."""
    exercise = CASES[name]
    make = exercise.maker()
    family = find_family(make(Source.seeded(1)))
    rounds = exercise.stream(family)
    more = exercise.odd and family.relation == "replace" and not family.moves_all_rounds
    signs = [np.where(part[0] < 0.0, -1.0, 1.0) for part in rounds.parts]
    odd = [(0, -1e300), (1, 0.0), (6, 1e-310)] if more else []
    replacements = [(t, *(size * each for each in signs)) for t, size in odd]
    return make, rounds.stream, [*exercise.neighbours(family, rounds), *replacements]


def find(cls: type, **options: object) -> str:
    """Return the name of the first case of a class with these options."""
    for name, each in CASES.items():
        problem = (
            {"dimension": getattr(each.arguments[0], "dimension", None)} if each.arguments else {}
        )
        known = {**problem, **each.options, **each.changes, **each.settings}
        if each.cls is cls and options.items() <= known.items():
            return name
    raise KeyError(cls, options)
