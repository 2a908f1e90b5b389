"""Everything calibration fixes for the two continuous learners, as stored values.

The values carry no claim of their own: the modules' ``guarantee`` recomputes every privacy and
regret quantity from them, the domain and the loss. ``docs/privacy/oco_regret.md`` derives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

from dpoco._validation import LARGEST_HORIZON, choice, positive_float, positive_int, real_float
from dpoco.accounting._records import plain_float, read_record
from dpoco.errors import StateError
from dpoco.privacy.neighbours import CHANGES

CALIBRATIONS = ("tight", "corrected", "paper")
COUPLINGS = ("density_ratio", "dartboard", "anchored", "scheduled", "maximal")
LEADER_COUPLINGS = ("density_ratio", "scheduled", "maximal")
SAMPLERS = ("exact", "mcmc")

Self = TypeVar("Self", bound="_Stored")


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """Conversion to and from plain dictionaries, and the checks both learners share."""

    _kind: ClassVar[str]

    horizon: int
    dimension: int
    lipschitz: float
    radius: float
    diameter: float
    coupling: str
    block: int
    forced_switch: float
    clip_high: float
    clip_low: float
    max_switches: int | None
    relation: str
    calibration: str
    unbounded: bool
    private: bool
    regret_bound: float
    regret_terms: dict[str, float]
    expected_switches: float

    @property
    def noise_dominates(self) -> bool:
        """Whether one decision for all rounds is proved to be no worse than learning."""
        return self.private and self.horizon > 1 and self.max_switches == 0

    def _check(self, couplings: tuple[str, ...]) -> None:
        choice("coupling", self.coupling, couplings)
        choice("relation", self.relation, CHANGES)
        choice("calibration", self.calibration, CALIBRATIONS)
        positive_int("horizon", self.horizon)
        positive_int("dimension", self.dimension)
        positive_int("block", self.block, maximum=self.horizon)
        for name in ("lipschitz", "radius", "diameter"):
            object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        for name in ("clip_high", "clip_low", "regret_bound", "expected_switches"):
            object.__setattr__(self, name, at_least_zero(name, getattr(self, name)))
        for name in ("unbounded", "private"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be a bool; got {type(getattr(self, name)).__name__}")
        p = real_float("forced_switch", self.forced_switch)
        object.__setattr__(self, "forced_switch", p)
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"forced_switch must be in [0, 1]; got {p!r}")
        if self.max_switches is not None:
            whole = isinstance(self.max_switches, int) and not isinstance(self.max_switches, bool)
            if not whole:
                kind = type(self.max_switches).__name__
                raise TypeError(f"max_switches must be an int or None; got {kind}")
            if not 0 <= self.max_switches <= LARGEST_HORIZON:
                raise ValueError(
                    f"max_switches must be in [0, {LARGEST_HORIZON}]; got {self.max_switches}"
                )
        if self.coupling == "scheduled" and p != 1.0:
            raise ValueError(f"coupling 'scheduled' has forced_switch 1; got {p!r}")
        if not isinstance(self.regret_terms, Mapping):
            raise TypeError("regret_terms must be a mapping of names to floats")
        terms = {str(k): at_least_zero("regret_terms", v) for k, v in self.regret_terms.items()}
        object.__setattr__(self, "regret_terms", terms)
        if self.private:
            self._check_private(p)

    def _check_private(self, p: float) -> None:
        if p == 0.0:
            raise ValueError("forced_switch 0 is not private: a stay would reveal the loss")
        if self.max_switches is None:
            raise ValueError("max_switches None is not private: every switch spends budget")
        if self.coupling == "maximal":
            raise ValueError("coupling 'maximal' is not private")

    @property
    def decisions(self) -> int:
        """Stay-or-switch decisions over the horizon: ceil(horizon / block) - 1."""
        return -(-self.horizon // self.block) - 1

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body = {k: plain_float(v) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return {"kind": self._kind, "version": 1, **body}

    @classmethod
    def from_dict(cls: type[Self], record: Mapping[str, Any]) -> Self:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        names = frozenset(field.name for field in fields(cls))
        body = read_record(record, kind=cls._kind, version=1, fields=names)
        try:
            if body.get("step_size") == "inf":
                body["step_size"] = math.inf
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise StateError(f"malformed {cls._kind} record") from error


@dataclass(frozen=True, kw_only=True)
class ContinuousMultiplicativeWeightsParameters(_Stored):
    """Parameters of continuous multiplicative weights (P-COMW).

    Attributes
    ----------
    horizon : int
        Rounds T.
    dimension : int
        n, of the set of decisions.
    lipschitz, radius, diameter : float
        G (loss/length), R and D (length).
    coupling : {"density_ratio", "dartboard", "anchored", "scheduled", "maximal"}
        How a decision may outlive a round; "maximal" only without privacy.
    block : int
        Rounds m per stay-or-switch decision.
    forced_switch : float
        p, probability that a decision switches whatever the losses; 1 for "scheduled".
    clip_high, clip_low : float
        Window of the log acceptance factor: it is lowered by `clip_high` and kept in
        [-clip_high - clip_low, 0]. "anchored": both are the largest scale a_max. Else 0.
    max_switches : int or None
        Switches after which the decision is frozen; None only without privacy.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    calibration : {"tight", "corrected", "paper"}
        How the parameters were found.
    unbounded : bool
        Whether decisions range over R^d, the domain being the comparator class.
    private : bool
        Whether a privacy budget was asked for.
    regret_bound : float
        Bound on the expected regret over the horizon (loss), oblivious streams. Derived.
    regret_terms : dict of str to float
        Its terms.
    expected_switches : float
        Bound on the expected number of switches. Derived.
    inverse_temperature, regularization : float
        beta (1/loss) and lam (loss/length^2).
    factor_range : float
        "dartboard": public range of l - min l (loss); else 0.
    anchors : int
        "anchored": K; else 0.
    sampler : {"exact", "mcmc"}
        "mcmc" whenever a Markov chain may be used for some draw.
    sampler_tolerance : float
        Total variation assumed of one draw; 0 for "exact".
    """

    _kind: ClassVar[str] = "dpoco.continuous_multiplicative_weights_parameters"

    inverse_temperature: float
    regularization: float
    factor_range: float = 0.0
    anchors: int = 0
    sampler: str = "exact"
    sampler_tolerance: float = 0.0

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        self._check(COUPLINGS)
        for name in ("inverse_temperature", "regularization"):
            object.__setattr__(self, name, positive_float(name, getattr(self, name)))
        for name in ("factor_range", "sampler_tolerance"):
            object.__setattr__(self, name, at_least_zero(name, getattr(self, name)))
        choice("sampler", self.sampler, SAMPLERS)
        if (self.sampler == "exact") != (self.sampler_tolerance == 0.0):
            raise ValueError("sampler_tolerance is 0 for exact draws and positive for 'mcmc'")
        if self.sampler_tolerance >= 1.0:
            raise ValueError(f"sampler_tolerance must be below 1; got {self.sampler_tolerance!r}")
        if (self.coupling == "dartboard") != (self.factor_range > 0.0):
            raise ValueError("factor_range is positive for coupling 'dartboard' and 0 otherwise")
        if self.coupling == "dartboard" and self.unbounded:
            raise ValueError("coupling 'dartboard' needs bounded decisions")
        if self.coupling == "anchored":
            positive_int("anchors", self.anchors)
        elif self.anchors != 0 or isinstance(self.anchors, bool):
            raise ValueError(f"anchors is 0 unless coupling is 'anchored'; got {self.anchors!r}")


@dataclass(frozen=True, kw_only=True)
class CoupledRegularizedLeaderParameters(_Stored):
    """Parameters of the coupled regularized leader (CTRL).

    Attributes
    ----------
    horizon, dimension, lipschitz, radius, diameter, coupling, block, forced_switch, clip_high, \
clip_low, max_switches, relation, calibration, unbounded, private, regret_bound, regret_terms, \
expected_switches
        As in `ContinuousMultiplicativeWeightsParameters`; couplings "density_ratio", "scheduled"
        and "maximal". With `noise_growth` and "density_ratio" the window of round t is that of
        `dpoco.accounting.lazy_oco.growing_clip_widths`; clip_high and clip_low are then 0.
    smoothness : float
        beta_s, bound on the Hessians (loss/length^2).
    rank : int
        r, rank of one loss's Hessian.
    step_size : float
        eta (length^2/loss); infinite when strong convexity regularises instead.
    noise_scale : float
        sigma, standard deviation per coordinate of the linear perturbation (loss/length).
    noise_growth : bool
        Whether the variance before round t is sigma^2 (t - 1).
    strong_convexity : float
        Smallest eigenvalue of any loss's Hessian that the bound uses; 0 if none.
    barrier_weight : float
        Weight of the barrier (loss); 0 for none.
    """

    _kind: ClassVar[str] = "dpoco.coupled_regularized_leader_parameters"

    smoothness: float
    rank: int
    step_size: float
    noise_scale: float
    noise_growth: bool = False
    strong_convexity: float = 0.0
    barrier_weight: float = 0.0

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        self._check(LEADER_COUPLINGS)
        object.__setattr__(self, "noise_scale", positive_float("noise_scale", self.noise_scale))
        for name in ("smoothness", "strong_convexity", "barrier_weight"):
            object.__setattr__(self, name, at_least_zero(name, getattr(self, name)))
        if isinstance(self.rank, bool) or not isinstance(self.rank, int):
            raise TypeError(f"rank must be an int; got {type(self.rank).__name__}")
        if not 0 <= self.rank <= self.dimension or (self.rank == 0) != (self.smoothness == 0.0):
            raise ValueError("rank must be in [0, dimension], and 0 exactly if smoothness is 0")
        if not isinstance(self.noise_growth, bool):
            raise TypeError(f"noise_growth must be a bool; got {type(self.noise_growth).__name__}")
        if self.noise_growth:
            if self.step_size != math.inf or self.strong_convexity == 0.0 or self.private:
                raise ValueError(
                    "noise_growth needs strong_convexity, an infinite step_size and no privacy"
                )
        else:
            object.__setattr__(self, "step_size", positive_float("step_size", self.step_size))


def at_least_zero(name: str, value: Any) -> float:
    """Return `value` as a finite float, at least 0, or raise naming the argument."""
    number = real_float(name, value)
    if number < 0.0:
        raise ValueError(f"{name} must be at least 0; got {number!r}")
    return number
