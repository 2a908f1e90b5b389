"""How the noise of the batched share is scaled to a budget, and what becomes of that.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import choice
from dpoco.accounting._experts.batch_share_parameters import (
    LARGEST_RESPONSE,
    NOISES,
    BatchShareParameters,
)
from dpoco.accounting._experts.batch_share_regret import Plan, ShareRegret, regret_of, variance
from dpoco.accounting.budget import Budget
from dpoco.accounting.lattice import LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.truncation import charged_gaussian_mu, truncation_mass
from dpoco.errors import CalibrationError

__all__ = [
    "arithmetic",
    "candidates",
    "centered_sensitivity",
    "given",
    "noise_scale",
    "published",
    "regret",
    "stored",
]


def centered_sensitivity(experts: int) -> float:
    """Return the largest l2 norm of a change in [-1, 1]^N less its mean, as computed.

    The computed mean is off along the common shift, orthogonal to the change: a second-order
    effect, below 1e-9 while N B is below 1e13.
    """
    return math.sqrt(experts - (experts % 2) / experts) * (1.0 + 1e-9)


def noise_scale(experts: int, noise: str, budget: Budget) -> float:
    """Return the least scale of `noise` that meets `budget`.

    Raises
    ------
    CalibrationError
        For Gaussian noise without delta, or with one that does not pay for truncated tails.
    """
    if choice("noise", noise, NOISES) == "none":
        raise ValueError("noise 'none' meets no budget")
    if noise == "gaussian":
        mu = charged_gaussian_mu(budget, truncation_mass(float(experts)))
        return max(centered_sensitivity(experts), 1e-3) / mu
    if not 1e-90 <= budget.epsilon <= 1e90:
        raise CalibrationError("noise can be scaled for epsilon in [1e-90, 1e90] only")
    factor = float(experts) if noise == "laplace" else 1.0
    epsilon = min(budget.epsilon, LARGEST_RESPONSE) if noise == "coordinate_rr" else budget.epsilon
    scale = factor / epsilon
    while factor / scale > epsilon:  # a rounding away
        scale = math.nextafter(scale, math.inf)
    return scale


def regret(experts: int, parameters: BatchShareParameters, rounds: int) -> ShareRegret | None:
    """Return the regret bounds of `parameters` after `rounds` rounds; None for the paper's update.

    For an endless stream every `rounds` is covered; bounds hold for each of them.
    """
    p = parameters
    if p.calibration == "paper":
        return None
    return regret_of(
        experts,
        rounds,
        p.switches,
        noise=p.noise,
        scale=p.noise_scale,
        batch=p.batch,
        learning_rate=p.learning_rate,
        share_rate=p.share_rate,
    )


def candidates(
    experts: int, noise: str, budget: Budget | None, *, known: bool
) -> list[tuple[str, float]]:
    """Return the laws to compare with their scales; the purely private one first."""
    if budget is None:
        return [("none", 0.0)]
    if noise != "auto":
        return [(noise, noise_scale(experts, noise, budget))]
    laws = [("knorm", noise_scale(experts, "knorm", budget))]
    if budget.delta > 0.0 and experts > 1:
        try:
            laws.append(("gaussian", noise_scale(experts, "gaussian", budget)))
        except CalibrationError:  # delta does not pay for its tails
            return laws
    if not known:  # no horizon, no bound: the smaller variance
        laws.sort(key=lambda item: variance(item[0], item[1], experts))
    return laws if known else laws[:1]


def arithmetic(numerics: str, experts: int, noise: str, scale: float, batch: int) -> str:
    """Return the arithmetic that `numerics` means: "auto" takes the lattice where there is one.

    Raises
    ------
    ValueError
        If "lattice" is asked for with a noise that has none.
    CalibrationError
        If no grid suits noise and batch.
    """
    choice("numerics", numerics, ("auto", *NUMERICS))
    if numerics == "float" or noise == "none":
        return "float" if numerics == "auto" else numerics
    if noise not in LATTICE_NOISES:
        if numerics == "lattice":
            raise ValueError("numerics 'lattice' is for noise 'gaussian' and 'laplace'")
        return "float"
    try:
        batch_grid(experts, noise, scale, batch)
    except CalibrationError:
        if numerics == "lattice":
            raise
        return "float"
    return "lattice"


def given(
    experts: int,
    switches: int,
    noise: str,
    batch: int | None,
    learning_rate: float | None,
    share_rate: float | None,
) -> Plan:
    """Return the schedule of an endless stream, which nothing is planned for."""
    if noise == "coordinate_rr":
        batch = 1
    if share_rate is None and (switches == 0 or experts == 1):
        share_rate = 0.0
    if batch is None or learning_rate is None or share_rate is None:
        raise ValueError(
            "an endless stream (horizon=None) needs batch, learning_rate and, with switches, "
            "share_rate, or a nominal_horizon to choose them for"
        )
    return Plan(batch, learning_rate, share_rate, ShareRegret({}, math.inf, math.inf))


def published(
    experts: int,
    horizon: int | None,
    budget: Budget | None,
    switches: int,
    adversary: str,
    learning_rate: float | None,
    numerics: str = "float",
) -> BatchShareParameters:
    """Return the printed parameters; S = 0, for which they say nothing, counts as 1."""
    if horizon is None or budget is None:
        raise ValueError("calibration 'paper' needs a horizon and a budget")
    moves = max(1, min(switches, horizon))
    logarithm = max(math.log(float(experts) * horizon), math.log(2.0))
    printed = budget.epsilon * math.sqrt(moves / (horizon * logarithm))
    scale = noise_scale(experts, "knorm", budget)
    return stored(
        experts,
        horizon,
        switches,
        "paper",
        "laplace",
        scale,
        printed if learning_rate is None else learning_rate,
        1,
        0.0,
        moves / (float(experts) * horizon),
        adversary,
        arithmetic(numerics, experts, "laplace", scale, 1),
    )


def stored(
    experts: int,
    horizon: int | None,
    switches: int,
    calibration: str,
    noise: str,
    scale: float,
    learning_rate: float,
    batch: int,
    share_rate: float,
    floor: float,
    adversary: str,
    numerics: str = "float",
) -> BatchShareParameters:
    found = BatchShareParameters(
        experts=experts,
        horizon=horizon,
        switches=switches,
        calibration=calibration,
        noise=noise,
        noise_scale=scale,
        learning_rate=learning_rate,
        batch=batch,
        share_rate=share_rate,
        floor=floor,
        regret_bound=None,
        regret_terms={},
        regret_scope=adversary,
        numerics=numerics,
    )
    bounds = None if horizon is None else regret(experts, found, horizon)
    if bounds is None:
        return found
    return replace(
        found, regret_bound=bounds.bound(adversary), regret_terms=bounds.terms_for(adversary)
    )
