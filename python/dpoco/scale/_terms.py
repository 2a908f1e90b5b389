"""What a pool promises, in numbers: fixed when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dpoco._validation import positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.pools import noise_of, pool_guarantee
from dpoco.errors import StateError

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """The terms of a pool; see `KeyedPool`."""

    max_keys: int = 10_000
    adaptive: bool = True
    privacy_unit: str = "record"
    rounds_per_user: int = 1
    keys_per_user: int = 1

    def __post_init__(self) -> None:
        """Check the number of keys; the guarantee checks the rest."""
        positive_int("max_keys", self.max_keys, maximum=2**31)

    def guarantee(self, prototype: Any) -> Guarantee:
        """Return what holds for a pool of learners like the prototype."""
        return pool_guarantee(
            prototype.guarantee,
            keys=self.max_keys,
            noise=noise_of(prototype),
            adaptive=self.adaptive,
            privacy_unit=self.privacy_unit,
            rounds_per_user=self.rounds_per_user,
            keys_per_user=self.keys_per_user,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as a dictionary that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Terms:
        """Return the terms that `to_dict` wrote; `StateError` if they are none."""
        try:
            return cls(**record)
        except (TypeError, ValueError):
            raise StateError("malformed terms of a pool") from None
