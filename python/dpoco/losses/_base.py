"""The interface of all families of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core
from dpoco._validation import Fields, FloatArray, float_array, positive_float
from dpoco.domains import Domain, Geometry


def products(rows: FloatArray, theta: ArrayLike) -> FloatArray:
    """Return <row, theta> for all rows; theta has shape (d,), or (T, d) with one per row."""
    if np.ndim(theta) == 2:
        # The sum is taken row by row, since a product of the two matrices would have T x T entries.
        return np.asarray(np.einsum("ij,ij->i", rows, float_array("theta", theta, rows.shape)))
    product: FloatArray = rows @ float_array("theta", theta, (rows.shape[1],))
    return product


@dataclass(frozen=True)
class Loss(ABC):
    """A family of convex losses with public bounds; an immutable value.

    Attributes
    ----------
    glm : bool
        Whether the loss is a function of one margin ``<theta, features>`` and a label.
    """

    glm: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check that all bounds are positive numbers, or None if that is the default."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                # The dataclass is frozen, so fields are set in this way at construction.
                object.__setattr__(self, each.name, positive_float(each.name, value))

    @abstractmethod
    def lipschitz(self, domain: Geometry) -> float:
        """Bound on the gradient over `domain`, in the dual norm ``l_q``."""

    @abstractmethod
    def smoothness(self, domain: Geometry) -> float:
        """Bound on ``||grad f(a) - grad f(b)||_q / ||a - b||_p`` over `domain`."""

    @abstractmethod
    def value(self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None) -> Any:
        """Loss of a decision on raw data, without clipping; not private."""

    @abstractmethod
    def gradient(
        self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None
    ) -> FloatArray:
        """Gradient of the loss at a decision on raw data, without clipping; not private."""

    @abstractmethod
    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision on many records, clipped as a learner does; not private.

        Parameters
        ----------
        domain
            Set of decisions; records are clipped in its dual norm.
        theta
            Decision, shape (d,), or one for each record, shape (T, d); it need not lie in the
            domain.
        features, labels
            Records, shapes (T, d) and (T,). A record that is not finite has loss 0.

        Returns
        -------
        ndarray
            Shape (T,), float64.
        """

    def to_dict(self) -> Fields:
        """Parameters as a JSON-able dict; :func:`dpoco.losses.from_dict` restores them exactly."""
        return {"type": type(self).__name__, **asdict(self)}

    @abstractmethod
    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        """How a learner reads the records: what `record_flags` returns; not private."""

    def _first_violation(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> int | None:
        """Row of the first record outside the bounds or not finite; None if there is none."""
        flags = self._flags(domain, records, labels)
        # A flag marks a record that a learner would not read as it was given.
        where = np.flatnonzero(np.any(list(flags.values()), axis=0))
        return int(where[0]) if where.size else None

    def _sum_settings(self, domain: Domain, unbounded: bool) -> Fields:
        """Return the settings of a compiled sum of such losses.

        `unbounded`: the sum is over all of R^d, not over the domain.
        """
        # Compiled code calls the user's losses back; subclasses that it implements return more
        # settings.
        return {"unbounded": unbounded, "kind": "custom"}

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        """The compiled loss. It is a placeholder for losses that are not generalised linear."""
        # Engines that sum gradients take a loss in any case, and do not use it.
        return _core.GlmLoss("squared", 1.0, 1.0, -1.0, 1.0)

    def _set(self, **values: object) -> None:
        """Store validated arguments, at construction only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
