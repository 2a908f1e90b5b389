"""The life of a selector: guarantee and state files, in the frame of ``dpoco._state``."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco._state import pack, unpack, write_atomically
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import StateError
from dpoco.local._archive import read_arrays
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._learner_state import guarantee_of
from dpoco.local._posterior import Posterior
from dpoco.local._rules import Settings

__all__ = ["SelectorLife"]

Self = TypeVar("Self", bound="SelectorLife")

_RULE = "rule."


class SelectorLife:
    """Base of the selector: all that is not selecting. It holds no noise."""

    _kind = "LocalHypothesisSelector"

    _arguments: dict[str, Any]
    _hypotheses: Hypotheses
    _settings: Settings
    _rule: Posterior
    _nonces: list[NDArray[np.uint64]]
    _answered: dict[int, int]
    _reports: int
    _weight_sum: NDArray[np.float64]
    _simulated: bool
    _lock: threading.RLock

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about one report."""
        return self.guarantee_for()

    def guarantee_for(self, reports_per_user: int = 1, delta: float | None = None) -> Guarantee:
        """Return the guarantee of a user who answers several questions."""
        return guarantee_of(self._rule, self._settings, reports_per_user, delta, self._simulated)

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments as they were given."""
        return {"hypotheses": self._hypotheses, **self._arguments}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file; `dpoco.load` goes on bit for bit. Nothing in it is secret."""
        with self._lock:
            write_atomically(path, self._to_bytes())

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str]) -> Self:
        """Go on from a file written by `save`; `StateError` if it is corrupt."""
        return cls._from_bytes(Path(path).read_bytes())

    def _to_bytes(self) -> bytes:
        from dpoco import __version__

        nonces = self._nonces or [np.empty(0, dtype=np.uint64)]
        arrays = {
            "hypotheses": self._hypotheses.matrix(),
            "weight_sum": self._weight_sum,
            "answered": np.array(sorted(self._answered.items()), dtype=np.int64).reshape(-1, 2),
            "nonces": np.sort(np.concatenate(nonces)),
        }
        arrays.update({_RULE + name: array for name, array in self._rule.state().items()})
        header = {
            "kind": self._kind,
            "library": __version__,
            "object": {
                "arguments": self._arguments,
                "public_seed": self._settings.public_seed,
                "simulated": self._simulated,
            },
        }
        payload = io.BytesIO()
        np.savez(payload, allow_pickle=False, **arrays)
        return pack(header, payload.getvalue())

    @classmethod
    def _from_bytes(cls: type[Self], data: bytes) -> Self:
        header, payload = unpack(bytes(data))
        if header.get("kind") != cls._kind:
            raise StateError(f"state is not of a {cls._kind}")
        try:
            return cls._rebuilt(header["object"], read_arrays(payload))
        except StateError:
            raise
        except Exception as error:
            # The text may quote the file; its kind is enough.
            raise StateError(
                f"state is corrupt: its description is refused ({type(error).__name__})"
            ) from None

    @classmethod
    def _rebuilt(cls: type[Self], body: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        given: dict[str, Any] = {**body["arguments"], "public_seed": int(body["public_seed"])}
        selector = cls(arrays["hypotheses"], **given)  # type: ignore[call-arg]
        selector._arguments = dict(body["arguments"])
        selector._rule.restore(
            {name[len(_RULE) :]: array for name, array in arrays.items() if name.startswith(_RULE)}
        )
        answered = np.asarray(arrays["answered"], dtype=np.int64)
        total = np.array(arrays["weight_sum"], dtype=np.float64)
        nonces = np.unique(np.asarray(arrays["nonces"], dtype=np.uint64))
        count = int(answered[:, 1].sum())
        if (
            (answered.size and answered.min() < 1)
            or nonces.size != count
            or total.shape != (selector._hypotheses.count,)
            or not np.isclose(total.sum(), count)
        ):
            raise StateError("state is corrupt: impossible counts")
        selector._answered = {number: times for number, times in answered.tolist()}
        selector._reports, selector._weight_sum = count, total
        selector._nonces = [nonces] if count else []
        selector._simulated = bool(body["simulated"])
        return selector

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            return type(self)._from_bytes, (self._to_bytes(),)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self._arguments.items() if v is not None)
        return f"{self._kind}({self._hypotheses!r}, {shown})\n  {self.guarantee!r}"
