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
    """Return <row, theta> for all rows: of one theta, shape (d,), or of one for each, (T, d)."""
    if np.ndim(theta) == 2:
        # Row by row: a product of the two matrices would have T x T entries.
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
        """Check all bounds: positive numbers, or None for none where that is the default."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.default is not None:
                # The dataclass is frozen: at construction alone it is written to like this.
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
        # Any flag: what a learner would read otherwise than it was given.
        where = np.flatnonzero(np.any(list(flags.values()), axis=0))
        return int(where[0]) if where.size else None

    def _sum_settings(self, domain: Domain, unbounded: bool) -> Fields:
        """Return what a compiled sum of such losses is built from.

        `unbounded`: the sum is over all of R^d, not over the domain.
        """
        # The user's own losses are called back; families that compiled code knows say more.
        return {"unbounded": unbounded, "kind": "custom"}

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        """The compiled loss; losses that are not generalised linear never reach it."""
        # Engines of gradients are built with a loss in any case.
        return _core.GlmLoss("squared", 1.0, 1.0, -1.0, 1.0)

    def _set(self, **values: object) -> None:
        """Store validated arguments, at construction only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
