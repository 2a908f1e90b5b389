"""Shared parts of servers of local reports: guarantee, posterior, state files, copies.

A server has no noise, and its state is a function of reports that are already private. So its
copies share no secret and are active immediately. ``dpoco.learning.state`` defines the frame of
state files. The header contains public arguments, and the payload contains arrays in NumPy's own
format.
"""

from __future__ import annotations

import io
import math
import os
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._files import write_atomically
from dpoco._validation import FloatArray, positive_int, real_float, real_in
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.statement import local_guarantee
from dpoco.errors import StateError
from dpoco.learning.state import pack, unpack
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._posterior import Posterior
from dpoco.local._settings import LONGEST_SUBSET, Arguments, Settings
from dpoco.privacy.losses.responses import LARGEST_REPORTS
from dpoco.privacy.mechanisms.local_report import LocalReport

Arrays = Mapping[str, NDArray[np.generic]]
Words = NDArray[np.uint64]
Self = TypeVar("Self", bound="Server")

_RULE = "rule."  # prefix of the rule's arrays


class Nonces:
    """Nonces of earlier reports; none may occur twice.

    They are stored in sorted parts, about as many as their number has binary digits, so each is
    moved O(log n) times.
    """

    def __init__(self, parts: Iterable[Words] = ()) -> None:
        self._parts = list(parts)  # arrays are replaced and never changed

    def __len__(self) -> int:
        return sum(part.size for part in self._parts)

    def copy(self) -> Nonces:
        """Return a copy with the same nonces."""
        return Nonces(self._parts)

    def add(self, nonces: Words) -> None:
        """Add nonces; ``ValueError``, without a change, if one occurs twice."""
        # First compare the new nonces with each other, because a batch may contain a report twice.
        new = np.sort(nonces)
        if (new[1:] == new[:-1]).any():
            raise ValueError("duplicated report: a nonce occurs twice")
        for seen in self._parts:
            # Search the smaller part in the larger: O(small log large).
            small, large = (new, seen) if new.size <= seen.size else (seen, new)
            # For a nonce above all others, the index would be past the end.
            at = np.minimum(np.searchsorted(large, small), large.size - 1)
            if (large[at] == small).any():
                raise ValueError("duplicated report: its nonce has been seen")
        # Merge parts of similar size, like carries of binary digits, so that few parts remain.
        while self._parts and new.size >= self._parts[-1].size:
            new = np.sort(np.concatenate([self._parts.pop(), new]), kind="stable")
        self._parts.append(new)

    def all(self) -> Words:
        """Return all nonces, sorted."""
        return np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *self._parts]))


class Server:
    """Base of the servers: everything except asking questions and taking reports.

    Methods may be called from several threads, one at a time each.

    Attributes
    ----------
    hypotheses : Hypotheses
        The hypothesis class.
    settings : Settings
        The resolved public settings.
    public_seed : int
        Seed of the public coins.
    reports : int
        Number of reports taken so far.
    """

    _kind: ClassVar[str]

    hypotheses: Hypotheses
    settings: Settings
    _arguments: Arguments
    _rule: Posterior | Hedge

    def _begin(
        self,
        hypotheses: Hypotheses,
        settings: Settings,
        arguments: Arguments,
        rule: Posterior | Hedge,
    ) -> None:
        """Start without reports; `arguments` are stored as given."""
        self.hypotheses, self.settings = hypotheses, settings
        self._arguments, self._rule = arguments, rule
        self.public_seed, self.reports = settings.public_seed, 0
        self._simulated = False
        # Reentrant, because methods with the lock call others that take it, such as `round_spec`.
        self._lock = threading.RLock()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for one report."""
        return self.guarantee_for()

    def guarantee_for(self, reports_per_user: int = 1, delta: float | None = None) -> Guarantee:
        """Return the guarantee for a user who sends several reports.

        Parameters
        ----------
        reports_per_user : int, default 1
            The largest number of reports of one user, over all rounds.
        delta : float, optional
            Delta at which epsilon is stated; by default 0, where epsilons add up.

        Raises
        ------
        ValueError, TypeError
            For numbers out of range.
        """
        settings = self.settings
        reports = positive_int("reports_per_user", reports_per_user, maximum=LARGEST_REPORTS)
        return local_guarantee(
            LocalReport(settings.epsilon, reports, settings.laws),
            released=settings.report_in_words,
            delta=0.0 if delta is None else real_float("delta", delta),
            protect=settings.protect,
            horizon=settings.horizon,
            simulated=self._simulated,
        )

    def posterior(self) -> FloatArray:
        """Return the Bayes posterior under a uniform prior, shape (K,); not for "hedge"."""
        with self._lock:
            return self._bayes().posterior()

    def confidence_set(self, beta: float) -> NDArray[np.intp]:
        """Return the hypotheses whose posterior is at least ``beta / K``, ascending.

        If one hypothesis is right, all sets together, at any times, contain it with probability at
        least ``1 - beta``, whatever was asked. ``docs/privacy/local_learning.md``, B4.

        Parameters
        ----------
        beta : float
            In (0, 1).

        Returns
        -------
        integer array of shape (n,)
            Never empty, because the largest posterior is at least 1/K.
        """
        level = real_in("beta", beta, "(0, 1)")
        return np.flatnonzero(self.posterior() >= level / self.hypotheses.count)

    @contextmanager
    def _whole_call(self) -> Iterator[None]:
        """Take back what a call has learned if it is interrupted: its reports may come again.

        The call assigns attributes, and changes none of their values in place.
        """
        before, learned = {**vars(self)}, self._rule.state()
        try:
            yield
        except BaseException:
            self._rule.restore(learned)
            vars(self).update(before)
            raise

    def _bayes(self) -> Posterior:
        """Return the posterior rule, or raise for hedge, which has no likelihoods."""
        if not isinstance(self._rule, Posterior):
            raise ValueError("only learner 'posterior' has likelihoods of its reports")
        return self._rule

    def get_params(self, deep: bool = True) -> Arguments:
        """Return the constructor's arguments as given; `deep` is for scikit-learn."""
        return {"hypotheses": self.hypotheses, **self._arguments}

    def clone(self: Self) -> Self:
        """Return a fresh server with the same arguments (and public coins, if they were given)."""
        return type(self)(**self.get_params())

    __sklearn_clone__ = clone  # for ``sklearn.base.clone``, which would copy arguments

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file that `dpoco.load` continues bit for bit. It contains no secret.

        Callable hypotheses are not written: see `load`.

        Parameters
        ----------
        path : path-like
            File, which is replaced atomically.
        """
        with self._lock:
            write_atomically(path, self._to_bytes())

    @classmethod
    def load(
        cls: type[Self], path: str | os.PathLike[str], hypotheses: Hypotheses | None = None
    ) -> Self:
        """Continue from a file written by `save`.

        Callable hypotheses must be given; others are checked against the file. `StateError` if the
        file is corrupt or was written with other hypotheses.
        """
        return cls._from_bytes(Path(path).read_bytes(), hypotheses)

    def _state_parts(self) -> tuple[Arguments, dict[str, NDArray[np.generic]]]:
        """Return the header fields besides arguments, and the arrays besides the rule's."""
        raise NotImplementedError

    @classmethod
    def _present(cls, arguments: Arguments) -> Arguments:
        """Return a state's arguments under their current names; earlier states have more."""
        given = dict(arguments)
        if given.pop("max_message_bits", LONGEST_SUBSET) != LONGEST_SUBSET:
            raise StateError("the state limits the length of subsets: no longer supported")
        return given

    def _continue(self, body: Arguments, arrays: Arrays) -> None:
        """Restore the values from `_state_parts`, or raise."""
        raise NotImplementedError

    def _to_bytes(self) -> bytes:
        """Return the state as stored in files and pickles."""
        body, arrays = self._state_parts()
        body = {
            "arguments": self._arguments,
            "public_seed": self.settings.public_seed,
            "simulated": self._simulated,
            **body,
        }
        arrays |= {_RULE + name: array for name, array in self._rule.state().items()}
        header = {"kind": self._kind, "library": _core.__version__, "object": body}
        # Uncompressed, because `read_arrays` refuses entries that might unpack to more than the
        # file.
        payload = io.BytesIO()
        np.savez(payload, **arrays)  # type: ignore[arg-type]
        return pack(header, payload.getvalue())

    @classmethod
    def _from_bytes(cls: type[Self], data: bytes, hypotheses: Hypotheses | None = None) -> Self:
        """Return the server of a state; `StateError` for any error in it."""
        header, payload = unpack(bytes(data))
        if header.get("kind") != cls._kind:
            raise StateError(f"state is not of a {cls._kind}")
        try:
            body, arrays = header["object"], read_arrays(payload)
            given = cls._present(body["arguments"])
            seed = int(body["public_seed"])
            known = _find_hypotheses(body, arrays, hypotheses)
            server = cls(**{"hypotheses": known, **given, "public_seed": seed})
            # A seed that was not given remains None, so that clones of the loaded server draw
            # another one.
            server._arguments = given
            names = [name for name in arrays if name.startswith(_RULE)]
            server._rule.restore({name[len(_RULE) :]: arrays[name] for name in names})
            if type(body["simulated"]) is not bool:
                raise StateError("state is corrupt: impossible counts")
            server._simulated = body["simulated"]
            server._continue(body, arrays)
        except StateError:
            raise
        except Exception as error:
            # The error's text may quote the file, so we only show its type.
            raise StateError(
                f"state is corrupt: its description is refused ({type(error).__name__})"
            ) from None
        return server

    def __reduce__(self) -> tuple[object, ...]:
        with self._lock:
            # Hypotheses that are functions are not in the state, and are pickled separately.
            return type(self)._from_bytes, (self._to_bytes(), self.hypotheses)

    def __deepcopy__(self: Self, memo: object) -> Self:
        with self._lock:
            return self._from_bytes(self._to_bytes(), self.hypotheses)

    def __repr__(self) -> str:
        given = self._arguments.items()
        shown = ", ".join(f"{name}={value!r}" for name, value in given if value is not None)
        return f"{self._kind}({self.hypotheses!r}, {shown})\n  {self.guarantee!r}"


def _find_hypotheses(body: Arguments, arrays: Arrays, given: Hypotheses | None) -> Hypotheses:
    """Return the given hypotheses, or otherwise those of a state."""
    known = given
    if known is None:
        if "hypotheses" not in arrays:
            raise StateError("the state's hypotheses are a callable: use load(path, hypotheses)")
        known = Hypotheses(arrays["hypotheses"])
    # States of selectors contain the array without a description.
    if "hypotheses" in body:
        own = bytes.fromhex(body["hypotheses"]["fingerprint"])
    else:
        own = Hypotheses(arrays["hypotheses"]).fingerprint
    if known.fingerprint != own:
        raise StateError("the state was written with other hypotheses")
    return known


def read_arrays(payload: bytes) -> dict[str, NDArray[np.generic]]:
    """Return the arrays that ``np.savez`` wrote, without trusting the stated sizes.

    The allocated memory is bounded by the size of `payload`. Entries must be uncompressed and have
    the stated size, or `StateError` is raised. Other exceptions of ``zipfile`` and NumPy also mean
    a malformed archive.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        entries = archive.infolist()
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not stored or sum(entry.file_size for entry in entries) > len(payload):
            raise StateError("state is corrupt: its arrays are compressed or overlap")
        for entry in entries:
            content = io.BytesIO(archive.read(entry))
            # The version that `np.savez` writes for such arrays; later versions have longer
            # headers.
            if np.lib.format.read_magic(content) != (1, 0):
                raise StateError("state is corrupt: an array of another format")
            shape, _, dtype = np.lib.format.read_array_header_1_0(content)
            left = entry.file_size - content.tell()
            if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
                raise StateError("state is corrupt: an array of another size")
            content.seek(0)
            array = np.lib.format.read_array(content, allow_pickle=False)
            arrays[entry.filename.removesuffix(".npy")] = array
    return arrays
