"""Certificates of all kinds of mechanisms and set-ups, and what both verifiers say of a text."""

from __future__ import annotations

import functools
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from check import check

from dpoco import Budget, Guarantee, bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.accounting.statement import local_guarantee
from dpoco.cli import _verify as command
from dpoco.domains import Box, LpBall
from dpoco.local import BitRandomizer
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.mechanisms.local_report import LocalReport
from dpoco.random import Source

SOURCE = Path(__file__).parents[1] / "check" / "check.py"
BALL, SIMPLE = LpBall(3, 2.0), LpBall(3, 1.0)
LOG = LogisticLoss(1.0)
SENTINEL = "ZZZ everything that anybody ever did is protected"


def learned(kind: Any, *problem: Any, **options: Any) -> Guarantee:
    options = {"horizon": 37, "budget": Budget(1.0, 1e-6), **options}
    return kind(*problem, **options).guarantee


def reported(count: int) -> Guarantee:
    law = BitRandomizer(0.3).law
    return local_guarantee(LocalReport(0.3, count, (law,)), released="reports", delta=0.0)


@functools.cache
def certificates() -> dict[str, Guarantee]:
    """Return certificates of all kinds of mechanisms and set-ups."""
    bell = Guarantee.gaussian(sensitivity=1.0, noise_scale=9.0, delta=1e-6, horizon=37)
    seeded = {"source": Source.seeded(1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise may dominate
        return {
            "ftrl": learned(oco.NoisyFTRL, BALL, LOG),
            "ftrl, doubles": learned(oco.NoisyFTRL, BALL, LOG, numerics="float"),
            "ftrl, batches in a tree": learned(
                oco.NoisyFTRL, BALL, LinearLoss(1.0), batch=5, sum_method="tree"
            ),
            "ftrl, emptied": learned(oco.NoisyFTRL, BALL, LOG, relation="zero_out"),
            "ftrl of people": learned(oco.NoisyFTRL, BALL, LOG).for_person(3, 5),
            "newton": learned(oco.NoisyNewton, BALL, LOG),
            "tree": learned(
                frank_wolfe.TreeFrankWolfe, LpBall(9, 1.01), LOG, noise="generalized_gaussian"
            ),
            "vertices": learned(frank_wolfe.PolyhedralFrankWolfe, SIMPLE, LOG),
            "vertices, Laplace": learned(
                frank_wolfe.PolyhedralFrankWolfe,
                SIMPLE,
                LOG,
                budget=Budget(1.0, 0.0),
                selector="laplace",
            ),
            "vertices of people": learned(frank_wolfe.PolyhedralFrankWolfe, SIMPLE, LOG).for_person(
                2, 9
            ),
            "leader": learned(oco.CoupledRegularizedLeader, BALL, LOG, horizon=1000),
            "leader, promised": learned(
                oco.CoupledRegularizedLeader, BALL, CustomLoss(1.0, 1.0), horizon=1000
            ),
            "weights": learned(oco.ContinuousMultiplicativeWeights, BALL, LinearLoss(1.0)),
            "hedge": learned(experts.PrefixHedge, 10),
            "hedge, seeded": learned(experts.PrefixHedge, 10, **seeded),
            "hedge, open": learned(experts.PrefixHedge, 10, budget=None),
            "epochs": learned(experts.EpochSelector, 10, selection="gumbel"),
            "detector": learned(experts.ShiftDetector, 10),
            "batches": learned(experts.BatchShare, 9, noise="gaussian", horizon=1000),
            "batches, Laplace": learned(
                experts.BatchShare, 9, noise="laplace", horizon=1000, budget=Budget(1.0, 0.0)
            ),
            "net": learned(oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, enforce=True),
            "net, promised": learned(
                oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, enforce=False
            ),
            "hedge, claimed": replace(learned(experts.PrefixHedge, 10), claimed=(0.01, 0.0)),
            "linucb": learned(bandits.LinUCB, 3, 4, context_bound=1.0, reward_bound=1.0),
            "phases": learned(bandits.ResidualPhases, 3, 4, context_bound=2.0, reward_bound=1.0),
            "phases of people": learned(
                bandits.ResidualPhases, 3, 4, context_bound=2.0, reward_bound=1.0
            ).for_person(3, 40),
            "arms": learned(
                bandits.HighDimensionalBandit,
                3,
                LpBall(20, 1.0),
                context_bound=1.0,
                reward_bound=1.0,
            ),
            "sum": learned(mechanisms.ContinualSum, 4, bound=1.0),
            "maximum": learned(mechanisms.NoisyMax, 5, sensitivity=1.0),
            "maximum, seeded": learned(mechanisms.NoisyMax, 5, sensitivity=1.0, **seeded),
            "threshold": learned(mechanisms.AboveThreshold, sensitivity=1.0, alarms=3),
            "fit": frank_wolfe.SufficientStatistics(
                LpBall(3, 2.0), SquaredLoss(1.0, 1.0), records=200, budget=Budget(1.0, 1e-6)
            ).guarantee,
            "report": reported(1),
            "reports": reported(4),
            "declared": bell,
            "declared, pure": Guarantee.pure_epsilon(0.5, horizon=37, releases=2),
            "composed": Guarantee.composed(bell, Guarantee.pure_epsilon(0.1, horizon=37)),
        }


# -- what a reader believes ------------------------------------------------------------------------


def read_by_library(text: str, path: Path) -> tuple[str, str, dict[str, Any] | None]:
    """Return the verdict of ``dpoco verify``, what it says by itself, and what that is about."""
    path.write_text(text)
    row, found = command._row(path, command._verify)
    lines = list(command._lines(row, found))
    if not found:
        return row["verdict"], row["reason"], None
    own = lines[: lines.index("  Stated by the issuer, not checked:")]
    own = [line for line in own if not line.lstrip().startswith("not verified: ")]
    return row["verdict"], "\n".join(own), found[0].to_dict()


def read_by_checker(text: str) -> tuple[str, str, dict[str, Any] | None]:
    """Return the same of the independent checker."""
    try:
        record = json.loads(text, object_pairs_hook=check.once, parse_constant=str)
        result, said = check.check(record)
    except (ValueError, RecursionError) as error:
        return "not one", str(error), None
    if result not in ("proved", "only if"):
        return result, said, None
    form = (
        r"epsilon = (\S+), delta = (\S+) for (.+?)(?: of at most (\d+) rounds, any two at least "
        r"(\d+) apart)?, (replace|zero_out), view (\w+), horizon (\d+) "
    )
    (e, d, unit, most, apart, change, view, horizon) = re.search(form, said).groups()
    person = None if most is None else [int(most), int(apart)]
    values = {"epsilon": record["epsilon"], "delta": record["delta"], "unit": unit}
    assert (f"{float(record['epsilon']):.6g}", f"{record['delta']:.6g}") == (e, d)
    values |= {"change": change, "view": view, "horizon": int(horizon), "person": person}
    return {"proved": "verified"}.get(result, result), said, values
