"""Everything calibration fixes for the shift detector, as one stored value.

The value carries no claim of its own: `dpoco.accounting.shift_detector.guarantee` recomputes every
privacy and regret quantity from the noise scales and the public offsets.

Proof: ``docs/privacy/shift_detector.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpoco._validation import choice, positive_int, real_float
from dpoco.accounting._experts.parameters import (
    StoredParameters,
    at_least_zero,
    check_terms,
    in_unit_interval,
)
from dpoco.accounting._experts.selection_scales import store, zero_or_more
from dpoco.accounting.above_threshold import probability

__all__ = ["CALIBRATIONS", "SHORTEST_HORIZON", "WINDOWS", "ShiftDetectorParameters"]

CALIBRATIONS = ("tight", "corrected", "paper")
WINDOWS = ("tangent", "dyadic", "naive")
LARGEST_EXPERTS = 2**32
# The naive windows keep all rounds: O(N T) memory, O(N T) time a round. For tests.
NAIVE_LIMIT = 4096
# Sums of as many rounds are resolved, at no more than 2^-25 a round, where that is not too few.
SHORTEST_REACH = 2**26
# With fewer rounds there is nothing to detect.
SHORTEST_HORIZON = 4


@dataclass(frozen=True)
class ShiftDetectorParameters(StoredParameters):
    """Parameters of the shift detector, for losses in [0, 1].

    Attributes
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds T; None is 10^12.
    calibration : {"tight", "corrected", "paper"}
        One-sided noise; the published Laplace noise, with scales that keep to the budget; the same
        as printed.
    selection : {"exponential", "laplace"}
        Law of the noise that selects.
    selection_scale : float
        Its scale; 0 means no noise.
    detects : bool
        Whether there is a detector; if not, all that concerns it is void.
    noise : {"exponential", "laplace"}
        Law of the detector's noises.
    threshold_noise_scale, query_noise_scale : float
        Their scales b_1 and b_2; 0 means no noise.
    threshold : float
        theta, public; times `threshold_scale` in use.
    windows : {"tangent", "dyadic", "naive"}
        Which windows are tested.
    log_windows : float
        Lambda: a window of w rounds is allowed sqrt(2 Lambda w) for chance (its tangents).
    log_selection : float or None
        L: a decision selected from m rounds is allowed a bias of sqrt(2 L / m) + b L / m, with
        twice the b for Laplace noise. None: no such allowance (as published).
    threshold_scale : float
        Factor in (0, 1] on the threshold and on what windows are allowed for chance.
    nominal_horizon : int
        Rounds the threshold and the windows are made for.
    select_share : float
        Part of the budget that was spent on selection.
    false_alarm : float
        Probability of a false alarm that was aimed at.
    expected_shifts : int or None
        Shifts that were planned for.
    first : int or None
        Expert of the first round; None draws it uniformly.
    regret_bound : float
        Bound on the expected regret to the best sequence of experts with `expected_shifts`
        switches (default 0), for independent losses whose law changes no more often; infinite if
        there is no claim. Derived, as is what follows.
    regret_terms : dict of str to float
        The terms it is the sum of, unless the number of rounds is smaller.
    regret_scope : {"shifting", "stationary"}
        Losses it holds for; "stationary" if no shifts were planned for.
    """

    _kind: ClassVar[str] = "dpoco.shift_detector_parameters"

    experts: int
    horizon: int | None
    calibration: str
    selection: str
    selection_scale: float
    detects: bool
    noise: str
    threshold_noise_scale: float
    query_noise_scale: float
    threshold: float
    windows: str
    log_windows: float
    log_selection: float | None
    threshold_scale: float
    nominal_horizon: int
    select_share: float
    false_alarm: float
    expected_shifts: int | None
    first: int | None
    regret_bound: float
    regret_terms: dict[str, float]
    regret_scope: str

    def __post_init__(self) -> None:
        """Validate and convert; derived quantities are only checked for form."""
        store(
            self,
            experts=positive_int("experts", self.experts, maximum=LARGEST_EXPERTS),
            horizon=None if self.horizon is None else positive_int("horizon", self.horizon),
            nominal_horizon=positive_int("nominal_horizon", self.nominal_horizon),
            threshold=real_float("threshold", self.threshold),
            log_windows=at_least_zero("log_windows", self.log_windows),
            false_alarm=probability("false_alarm", self.false_alarm),
            expected_shifts=check_count("expected_shifts", self.expected_shifts),
            first=check_first(self.first, self.experts),
            regret_bound=zero_or_more("regret_bound", self.regret_bound),
            regret_terms=check_terms("regret_terms", self.regret_terms),
        )
        choice("calibration", self.calibration, CALIBRATIONS)
        choice("selection", self.selection, ("exponential", "laplace"))
        choice("noise", self.noise, ("exponential", "laplace"))
        choice("windows", self.windows, WINDOWS)
        if not isinstance(self.detects, bool):
            raise TypeError("detects must be a bool")
        if self.detects and (self.horizon or SHORTEST_HORIZON) < SHORTEST_HORIZON:
            raise ValueError(f"there is no detector for fewer than {SHORTEST_HORIZON} rounds")
        if self.windows == "naive" and (self.horizon or NAIVE_LIMIT + 1) > NAIVE_LIMIT:
            raise ValueError(f"windows 'naive' are limited to {NAIVE_LIMIT} rounds")
        for name in ("selection_scale", "threshold_noise_scale", "query_noise_scale"):
            store(self, **{name: at_least_zero(name, getattr(self, name))})
        if self.log_selection is not None:
            store(self, log_selection=at_least_zero("log_selection", self.log_selection))
        for name in ("threshold_scale", "select_share"):
            part = in_unit_interval(name, getattr(self, name))
            if part == 0.0:
                raise ValueError(f"{name} must be positive")
            store(self, **{name: part})
        choice("regret_scope", self.regret_scope, ("shifting", "stationary"))

    @property
    def private(self) -> bool:
        """Whether anything is promised: all noises are there, or nothing depends on the data."""
        detector = self.threshold_noise_scale > 0.0 and self.query_noise_scale > 0.0
        noisy = self.selection_scale > 0.0 and (detector or not self.detects)
        return noisy or self.experts == 1 or self.horizon == 1

    def window_lines(self) -> tuple[list[float], list[float]]:
        """Return offsets and slopes of what a window is allowed for chance.

        For "dyadic": what a block of 2^k rounds is allowed, k = 0, 1, ..., and no slopes.
        """
        factor, level = self.threshold_scale, self.log_windows
        if self.windows == "dyadic":
            blocks = self.nominal_horizon.bit_length()
            return [factor * math.sqrt(2.0 * level * 2.0**k) for k in range(blocks)], []
        lengths = [4.0**k for k in range(tangents(self.nominal_horizon))]
        offsets = [factor * math.sqrt(0.5 * level * w) for w in lengths]
        return offsets, [factor * math.sqrt(0.5 * level / w) for w in lengths]

    def reach(self) -> int:
        """Return the power of two up to which sums of the test statistic are resolved."""
        wanted = max(self.nominal_horizon, SHORTEST_REACH)
        if self.horizon is not None:
            wanted = min(wanted, self.horizon)
        return int(1 << (wanted - 1).bit_length())

    def rounding(self) -> float:
        """Return the grid that the statistic's losses and allowances are rounded to."""
        return max(2.0**-46, self.reach() * 2.0**-51)

    def bias_noise(self) -> float:
        """Return what log_selection is multiplied by in the part of the bias that noise causes."""
        return self.selection_scale * (2.0 if self.selection == "laplace" else 1.0)

    def bias(self, m: int) -> float:
        """Return g(m), the bias allowed a decision selected from m rounds; m = 0: none yet."""
        if self.log_selection is None:
            return 0.0
        if m == 0:
            return 1.0
        level = self.log_selection
        return min(1.0, math.sqrt(2.0 * level / m) + self.bias_noise() * level / m)


def tangents(horizon: int) -> int:
    """Return K = ceil(log_4 T) + 1, the number of tangents to the square root."""
    k = 0
    while 4**k < horizon:
        k += 1
    return k + 1


def check_count(name: str, value: Any) -> int | None:
    """Return None or an int of at least 0, or raise naming the argument."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int or None; got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must be at least 0; got {value}")
    return int(value)


def check_first(first: Any, experts: int) -> int | None:
    """Return None or the index of an expert, or raise."""
    index = check_count("first", first)
    if index is not None and index >= experts:
        raise ValueError(f"first must be below the number of experts, {experts}; got {index}")
    return index
