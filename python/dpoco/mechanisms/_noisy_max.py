"""The index of the best score, selected privately."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._validation import float_array
from dpoco.accounting import Budget
from dpoco.accounting import noisy_max as accountant
from dpoco.accounting.noisy_max import NoisyMaxParameters
from dpoco.errors import HorizonExceeded
from dpoco.mechanisms._mechanism import Mechanism
from dpoco.random import Source

__all__ = ["NoisyMax", "NoisyMaxParameters"]


class NoisyMax(Mechanism):
    """Report noisy max: the index of the best of many scores, and nothing else about them.

    Parameters
    ----------
    candidates : int
        Number of scores, at most 2^32.
    horizon : int, default 1
        Number of selections on the same data. Keyword-only, as all below.
    budget : Budget or None
        Guarantee of all selections together; None adds no noise and promises nothing.
    sensitivity : float, default 1.0
        Largest change of one score when one record is replaced: the caller's promise.
    noise : {"exponential", "gumbel", "laplace", "permute_and_flip"}
        "exponential" (default): one-sided noise, the smallest error for one selection, and the law
        of permute-and-flip, which is the same mechanism by another name. "gumbel": the exponential
        mechanism, which composes best over many selections with ``delta > 0``. "laplace": the
        classical one.
    one_directional : bool, default False
        Whether replacing a record moves all scores the same way, as adding or removing one moves
        counts: half the noise.
    largest : bool, default True
        Whether the largest or the smallest score is sought.
    parameters : NoisyMaxParameters, optional
        Overrides calibration; must keep to `budget`, if given, and to every other argument that is.
    source : Source, optional
        Randomness; None is the operating system's entropy.

    Notes
    -----
    The selected score falls short of the best by x or more with probability at most
    ``candidates * exp(-x / parameters.scale)`` (Laplace: x / 2 for x).
    Scores may depend on earlier selections. O(candidates) time and memory a selection.
    Proof: ``docs/privacy/noisy_max.md``.

    Examples
    --------
    >>> import dpoco
    >>> best = dpoco.mechanisms.NoisyMax(3, budget=dpoco.Budget(epsilon=1.0, delta=0.0))
    >>> best.select([10.0, 200.0, 30.0])
    1
    >>> best.guarantee.epsilon
    1.0
    """

    _parameters: NoisyMaxParameters
    _accountant: ClassVar[ModuleType] = accountant
    _noise: ClassVar[str] = "fresh"
    _one_round: ClassVar[bool] = False  # the same data answer every query
    _parameters_class = NoisyMaxParameters

    def __init__(
        self,
        candidates: int,
        *,
        horizon: int = 1,
        budget: Budget | None,
        sensitivity: float = 1.0,
        noise: str = "exponential",
        one_directional: bool = False,
        largest: bool = True,
        parameters: NoisyMaxParameters | None = None,
        source: Source | None = None,
    ) -> None:
        self._begin(
            NoisyMax,
            candidates=candidates,
            horizon=horizon,
            budget=budget,
            sensitivity=sensitivity,
            noise=noise,
            one_directional=one_directional,
            largest=largest,
            parameters=parameters,
            source=source,
        )

    def _build_engine(self, claim: dict[str, Any]) -> _core.NoisyMax:
        parameters = self._parameters
        return _core.NoisyMax(
            {
                "candidates": parameters.candidates,
                "noise": accountant.law_of(parameters.noise),
                "scale": parameters.scale,
                "largest": parameters.largest,
                "horizon": parameters.horizon,
                **claim,
            }
        )

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        return 1  # nothing is allocated before the caller of `select` brings as many scores

    @property
    def parameters(self) -> NoisyMaxParameters:
        """Law and scale of the noise: everything calibration fixed."""
        return self._parameters

    @property
    def horizon(self) -> int:
        """Largest number of selections."""
        return self._parameters.horizon

    def select(self, scores: Any) -> int:
        """Return the index of a score that is close to the best.

        Parameters
        ----------
        scores : array_like of shape (candidates,)
            Non-finite ones count as 0.

        Raises
        ------
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        ValueError, TypeError
            Wrong shape or dtype.
        """
        row = float_array("scores", scores, (self._parameters.candidates,))
        self._check_active()
        if self.round >= self.horizon:
            raise HorizonExceeded(f"the horizon of {self.horizon} selections is used up")
        return int(self._engine.select(row))

    def __repr__(self) -> str:
        p = self._parameters
        return (
            f"NoisyMax(candidates={p.candidates}, horizon={p.horizon}, noise={p.noise!r}, "
            f"sensitivity={p.sensitivity!r})\n  {self._guarantee!r}"
        )
