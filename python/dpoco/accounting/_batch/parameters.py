"""Everything calibration fixes for the batch baselines, as stored values.

They carry no claim of their own: the guarantees recompute every privacy quantity from the noise
scales and the enforced bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._experts.parameters import StoredParameters, at_least_zero, count_of
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.release import check_scale
from dpoco.accounting.sampled_gaussian import LARGEST_STEPS

__all__ = [
    "CALIBRATIONS",
    "LocalizedMirrorDescentParameters",
    "NoisyFrankWolfeParameters",
    "NoisySGDParameters",
    "PhasedSGDParameters",
]

CALIBRATIONS = ("tight", "paper")


@dataclass(frozen=True)
class NoisyFrankWolfeParameters(StoredParameters):
    """Parameters of `NoisyFrankWolfe`.

    Attributes
    ----------
    records : int
        n.
    first_batch, batch : int
        Records of the first gradient estimate and of each later one.
    steps : int
        Linear minimisations, the first included.
    step_size : float
        In (0, 1].
    derivative_bound, difference_bound : float
        Enforced bounds on a record's derivative in the margin, and on its change between two
        consecutive decisions.
    first_scale, later_scale : float
        Standard deviations of the noise of the first and of the later mean gradients; 0 means no
        privacy.
    mu : float
        GDP parameter, infinite without noise. Derived: the guarantee recomputes it.
    calibration : {"tight", "paper"}
        How the noise scales were found.
    numerics : {"float", "lattice"}
        Arithmetic of releases: doubles, whose rounding the guarantee leaves out, or exact integers.
    """

    _kind = "dpoco.noisy_frank_wolfe_parameters"
    _version = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    records: int
    first_batch: int
    batch: int
    steps: int
    step_size: float
    derivative_bound: float
    difference_bound: float
    first_scale: float
    later_scale: float
    mu: float
    calibration: str = "tight"
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate."""
        choice("numerics", self.numerics, NUMERICS)
        if self.numerics == "lattice" and self.calibration != "tight":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")
        choice("calibration", self.calibration, CALIBRATIONS)
        for name in ("records", "first_batch", "steps"):
            positive_int(name, getattr(self, name))
        count_of("batch", self.batch)
        if self.steps > 1 and self.batch < 1:
            raise ValueError("batch must be at least 1")
        if self.first_batch + (self.steps - 1) * self.batch > self.records:
            raise ValueError("the batches need more records than there are")
        if positive_float("step_size", self.step_size) > 1.0:
            raise ValueError(f"step_size must be at most 1; got {self.step_size!r}")
        positive_float("derivative_bound", self.derivative_bound)
        positive_float("difference_bound", self.difference_bound)
        check_scale(self.first_scale, self.mu)
        if (self.first_scale > 0.0) != (at_least_zero("later_scale", self.later_scale) > 0.0):
            raise ValueError("first_scale and later_scale are both positive or both 0")

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.first_scale > 0.0


@dataclass(frozen=True)
class NoisySGDParameters(StoredParameters):
    """Parameters of `NoisySGD`.

    Attributes
    ----------
    records : int
        n.
    steps : int
        K, each with a record drawn with probability 1/n.
    step_size : float
        Positive.
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    noise_scale : float
        Standard deviation of a step's noise; 0 means no privacy.
    calibration : {"tight", "paper"}
        How the noise scale was found.
    numerics : {"float", "lattice"}
        Arithmetic of releases: doubles, whose rounding the guarantee leaves out, or exact integers.
    """

    _kind = "dpoco.noisy_sgd_parameters"
    _version = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    records: int
    steps: int
    step_size: float
    derivative_bound: float
    noise_scale: float
    calibration: str = "tight"
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate."""
        choice("numerics", self.numerics, NUMERICS)
        if self.numerics == "lattice" and self.calibration != "tight":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")
        choice("calibration", self.calibration, CALIBRATIONS)
        positive_int("records", self.records)
        positive_int("steps", self.steps, maximum=LARGEST_STEPS)
        positive_float("step_size", self.step_size)
        positive_float("derivative_bound", self.derivative_bound)
        if self.noise_scale != 0.0:
            positive_float("noise_scale", self.noise_scale)

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_scale > 0.0


@dataclass(frozen=True)
class PhasedSGDParameters(StoredParameters):
    """Parameters of `PhasedSGD`: phase i has floor(n / 2^i) records and step size 4^-i `step_size`.

    Attributes
    ----------
    records : int
        n.
    phases : int
        At most floor(log2 n), at least 1.
    step_size : float
        Positive.
    largest_step : float
        Step sizes are capped here: at most 2 / smoothness, or walks could drift apart.
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    noise_multiplier : float
        Noise of a phase over 2 L times its step size; 0 means no privacy.
    calibration : {"tight", "paper"}
        How the noise was found.
    """

    _kind = "dpoco.phased_sgd_parameters"

    records: int
    phases: int
    step_size: float
    largest_step: float
    derivative_bound: float
    noise_multiplier: float
    calibration: str = "tight"

    def __post_init__(self) -> None:
        """Validate."""
        choice("calibration", self.calibration, CALIBRATIONS)
        _check_phases(self.records, self.phases)
        for name in ("step_size", "largest_step", "derivative_bound"):
            positive_float(name, getattr(self, name))
        if self.noise_multiplier != 0.0:
            positive_float("noise_multiplier", self.noise_multiplier)

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_multiplier > 0.0

    @property
    def step_sizes(self) -> list[float]:
        """Step size of every phase."""
        sizes = [math.ldexp(self.step_size, -2 * i) for i in range(1, self.phases + 1)]
        return [max(min(size, self.largest_step), 1e-300) for size in sizes]


@dataclass(frozen=True)
class LocalizedMirrorDescentParameters(StoredParameters):
    """Parameters of `LocalizedMirrorDescent`: phase i has floor(n / 2^i) records.

    Attributes
    ----------
    records : int
        n.
    phases : int
        At most floor(log2 n), at least 1.
    steps : int
        Mean gradients per phase.
    step_size : float
        eta: phase i is regularised with weight 1 / (4^-i eta n_i).
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    noise_multiplier : float
        Noise of a mean gradient over 2 L / n_i and what rounding adds; 0 means no privacy.
    calibration : {"tight"}
        How the noise was found.
    numerics : {"float", "lattice"}
        Arithmetic of releases: doubles, whose rounding the guarantee leaves out, or exact integers.
    """

    _kind = "dpoco.localized_mirror_descent_parameters"
    _version = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    records: int
    phases: int
    steps: int
    step_size: float
    derivative_bound: float
    noise_multiplier: float
    calibration: str = "tight"
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate."""
        choice("numerics", self.numerics, NUMERICS)
        choice("calibration", self.calibration, ("tight",))
        _check_phases(self.records, self.phases)
        positive_int("steps", self.steps, maximum=10**6)
        positive_float("step_size", self.step_size)
        positive_float("derivative_bound", self.derivative_bound)
        if self.noise_multiplier != 0.0:
            positive_float("noise_multiplier", self.noise_multiplier)

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return self.noise_multiplier > 0.0


def _check_phases(records: int, phases: int) -> None:
    n = positive_int("records", records)
    positive_int("phases", phases, maximum=max(1, n.bit_length() - 1))
