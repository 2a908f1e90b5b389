"""State files: framing, checksum, and the rules of copying, for mechanisms and learners alike.

Layout, little-endian: magic (8 bytes), format version (u32), header length (u32), payload length
(u64), header (UTF-8 JSON), payload (state of the compiled engine), SHA-256 of all before. The
checksum detects accidents; it does not authenticate. A state file holds the noise key and raw sums
of private data, so it is as secret as the data. Under a key, the whole file is encrypted
(``_encryption``).
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast, overload

import numpy as np

from dpoco import _core
from dpoco._encryption import EncryptionKey, given_key, is_encrypted, refuse_readable
from dpoco._files import read_state, write_atomically
from dpoco._validation import Fields, Named
from dpoco.errors import RoundOrderError, StateError
from dpoco.learners import LEARNERS, MONITORS, own_class
from dpoco.learning.participation import Persons

if TYPE_CHECKING:
    from dpoco.learning.participation import Limiter

FRAME_SIGNATURE = b"dpocost\n"
_VERSION = 1
_FRAME = struct.Struct("<8sIIQ")
_CHECKSUM = 32

# Placeholder for the key and stream, which the restored state contains.
REPLACED_CLAIM: _core.Claim = {"key": bytes(32), "stream": 0}

Self = TypeVar("Self", bound="Stateful")


def pack(header: Fields, payload: bytes) -> bytes:
    """Return the framed state.

    Parameters
    ----------
    header : dict
        Values for JSON; numbers and arrays of NumPy are converted.
    payload : bytes
        State of the compiled engine.
    """
    text = json.dumps(header, default=_plain).encode()
    body = _FRAME.pack(FRAME_SIGNATURE, _VERSION, len(text), len(payload)) + text + payload
    return body + hashlib.sha256(body).digest()


def _plain(value: Any) -> object:
    """Return a number or array of NumPy, which arguments may be, as a value for JSON."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return float(value)


def unpack(data: bytes) -> tuple[Fields, bytes]:
    """Return header and payload, or raise `StateError` for anything but an intact state.

    The checksum detects accidents. A forged state passes here, and is checked again where it is
    used. O(length).
    """
    if len(data) < _FRAME.size + _CHECKSUM:
        raise StateError("not a dpoco state: too short")
    magic, version, header_length, payload_length = _FRAME.unpack_from(data)
    if magic != FRAME_SIGNATURE:
        raise StateError("not a dpoco state: wrong signature")
    if version > _VERSION:
        raise StateError(f"state has format {version}, this library reads up to {_VERSION}")
    body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if len(body) != _FRAME.size + header_length + payload_length:
        raise StateError("state is truncated or has trailing data")
    if hashlib.sha256(body).digest() != checksum:
        raise StateError("state is corrupt: checksum differs")
    try:
        header = json.loads(body[_FRAME.size : _FRAME.size + header_length])
    # Deep nesting exhausts the parser's stack.
    except (ValueError, RecursionError):
        raise StateError("state is corrupt: header is not JSON") from None
    if version < 1 or not isinstance(header, dict):
        raise StateError("state is corrupt: header is not an object")
    return header, body[_FRAME.size + header_length :]


def stated_dimension(domain: Named) -> int:
    """Return the dimension that a domain's record states, without building the domain."""
    if "dimension" in domain:
        return int(domain["dimension"])
    # A box states its lower bounds, as a list or as doubles in base64, with 3 bytes in 4 letters.
    lower = domain["lower"]
    return 3 * len(lower["float64"]) // 32 if isinstance(lower, Mapping) else len(lower)


def argument_names(constructed: type) -> tuple[str, ...]:
    """Return the names of the arguments of a class's constructor, in order."""
    return _names(constructed.__init__)  # type: ignore[misc]  # of the class


# Cached, since pools read hundreds of thousands of states.
@cache
def _names(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a method's arguments, without `self`."""
    return tuple(signature(function).parameters)[1:]


def is_own(kind: type) -> bool:
    """Return whether a class is defined in this library, not derived elsewhere."""
    # A decorator may have copied the name of a module.
    room = sys.modules.get(kind.__module__)
    own = kind.__module__.startswith("dpoco.") and room is not None
    return own and vars(room).get(kind.__name__) is kind


# Arguments that older states lack, with their values in such states.
_ADDED = {"numerics": "float", "participation": None, "half_life": None, "ridge": None,
          "running_loss": False}  # fmt: skip
_LATER = ("half_life", "ridge", "running_loss")
# Arguments that only older states have.
_DROPPED = ("calibration", "tight")


class Stateful(_core.Live):
    """Base of objects with noise: save, load, pickle and clone, but no silent copies.

    A copy of a started object shares its noise, and two streams with the same noise reveal their
    difference. So copying raises an error, and an unpickled object waits for `resume`.

    Subclasses keep the constructor's arguments in `_arguments` and the result of their calibration
    in `_parameters`. `_decoders` says how arguments that are objects are restored from a
    dictionary. `_set_up` builds the object with a compiled `_engine` (``state``, ``restore``,
    ``adopt``, ``round``).
    """

    _arguments: Fields
    _plan: Any
    # Enforces a participation.
    _limiter: Limiter | None = None
    # Key that encrypts the states written.
    _key: EncryptionKey | None = None
    # Journal that took this object, and the name of its stream.
    _taken: tuple[bytes, str] | None = None
    _is_seeded: bool = False
    # How the command line read the records.
    _described: Fields | None = None
    _kind: ClassVar[str]
    _decoders: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    # Proved property of the noise. "fresh": independent of earlier releases, truncated tails
    # included. "ideal_fresh": the same, but only for ideal draws. "hidden": a part of the noise
    # stays for later rounds. The charges of forks and pools depend on it (docs/privacy/journal.md,
    # "Forks"; docs/privacy/pools.md), so the default is the most cautious.
    _noise: ClassVar[str] = "hidden"
    # Whether a record is data of one round only, not of later rounds as well.
    _one_round: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._kind = cls.__name__

    def __new__(cls: type[Self], *args: Any, **kwargs: Any) -> Self:
        """Give every instance a lock, however it is built."""
        seeds = {"seed", "random_state"} & kwargs.keys()
        # These are the names in other libraries. Python's own message would not say that seeding
        # voids the guarantee.
        if seeds and not seeds & {*argument_names(cls)}:
            raise TypeError(
                f"{min(seeds)} is no argument of learners: source=dpoco.random.Source.seeded(seed) "
                "repeats noise, for tests, and voids the guarantee"
            )
        # The lock is made here, since restored objects and siblings do not run the constructor.
        self = super().__new__(cls)
        self._sole = threading.Lock()
        return self

    # -- for subclasses ---------------------------------------------------------------------------

    def _set_up(self, arguments: Fields, plan: Any, seeded: bool, claim: _core.Claim) -> None:
        """Build the unstarted object; `claim` is its key and stream."""
        raise NotImplementedError

    def _saved_arguments(self) -> Fields:
        """Return the arguments to save; the engine has the source's stream.

        Newer options are left out at their defaults, as in states older than these options.
        """
        return {
            name: value
            for name, value in self._arguments.items()
            if name != "source" and (name not in _LATER or value not in (None, False))
        }

    def _header(self) -> Fields:
        """Return a description of the object for JSON, which `_assemble` reads."""
        arguments = {
            name: value.to_dict() if hasattr(value, "to_dict") else value
            for name, value in self._saved_arguments().items()
        }
        plan = self._plan.to_dict()
        return {"arguments": arguments, "plan": plan, "seeded": self._is_seeded}

    @classmethod
    def _assemble(cls: type[Self], header: Fields) -> Self:
        """Build the unstarted object that `_header` describes; the state brings the key later."""
        from dpoco import domains, losses
        from dpoco.accounting import Budget
        from dpoco.learning.participation import Participation

        arguments: Fields = {**cls._complete(header["arguments"]), "source": None}
        # Only older states have published constants.
        if arguments.pop("calibration", None) is not None:
            arguments["plan"] = header["plan"]
        decoders: dict[str, Callable[[Any], Any]] = {
            "domain": domains.from_dict,
            "loss": losses.from_dict,
            "budget": Budget.from_dict,
            "participation": Participation.from_dict,
            "plan": cls._read_plan,
            **cls._decoders,
        }
        for name, decode in decoders.items():
            if arguments.get(name) is not None:
                arguments[name] = decode(arguments[name])
        parameters = decoders["plan"](header["plan"])
        expected = argument_names(cls)
        if arguments.keys() != {*expected}:
            raise StateError("state is corrupt: it describes other arguments")
        cls._check_common(arguments)
        cls._check_fixed(parameters, arguments)
        # The constructor is not called: it would calibrate, and another version may find another
        # plan.
        self = cls.__new__(cls)
        arguments = {name: arguments[name] for name in expected}
        self._set_up(arguments, parameters, bool(header["seeded"]), REPLACED_CLAIM)
        return self

    @classmethod
    def _read_plan(cls, record: Named) -> Any:
        """Return the plan that a state holds."""
        raise NotImplementedError

    @classmethod
    def _complete(cls, arguments: Named) -> Fields:
        """Return saved arguments with those that older states lack, at their values then.

        Older states also name the calibration.
        """
        known = {k: v for k, v in _ADDED.items() if k in argument_names(cls)}
        return {**known, **{k: v for k, v in arguments.items() if (k, v) != _DROPPED}}

    @staticmethod
    def _check_common(arguments: Named) -> None:
        """Check the arguments that all constructors take."""

    @classmethod
    def _check_fixed(cls, plan: Any, given: Named) -> None:
        """Raise unless the arguments that a plan also fixes agree with it."""

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        """Return the dimension stated by a header; the payload has arrays of this length.

        It is called before anything of that size is built. Any exception means a corrupt header.
        """
        raise NotImplementedError

    def _sibling(self: Self, claim: _core.Claim) -> Self:
        """Return an unstarted object with the same plan and guarantee, without calibration."""
        sibling: Any = type(self).__new__(type(self))
        # Tickets and the place in a journal belong to one learner, so the sibling has neither.
        own = ("_book", "_taken")
        shared = {name: value for name, value in self.__dict__.items() if name not in own}
        sibling.__dict__.update(shared)
        sibling._engine, sibling._direct = sibling._build_engine(claim), self._direct
        return cast(Self, sibling)

    def _is_started(self) -> bool:
        """Return whether a copy would share noise that was used, or will be used."""
        return bool(self._engine.round > 0)

    def _check_alone(self) -> None:
        """Raise `RoundOrderError` while another thread is in a long run."""
        if self._sole.locked():
            raise RoundOrderError("the object is in use by another thread")

    def _alone(self) -> threading.Lock:
        """Return the lock that excludes other threads from a long run, if it is free.

        It returns the lock, not a generator around it, so that an interrupt cannot leave it locked.
        """
        self._check_alone()
        return self._sole

    def _check_active(self) -> None:
        """Raise `StateError` for a copy that waits for `resume`."""
        if self._suspended:
            raise StateError(
                "this copy is suspended: it shares its noise with the original; call resume() "
                "only if the original will never be used again"
            )

    # -- public -----------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> Fields:
        """Return the constructor's arguments as they were given; `deep` is scikit-learn's.

        Returns
        -------
        dict
            Arguments by name, in the constructor's order: ``type(learner)(**learner.get_params())``
            is an unstarted learner with its own noise. They depend on no data.
        """
        return dict(self._arguments)

    def save(self, path: str | os.PathLike[str], *, key: EncryptionKey | None = None) -> None:
        """Write the state to a file that `dpoco.load` continues bit for bit.

        Parameters
        ----------
        path : path-like
            The file is replaced atomically and is readable by its owner only.
        key : EncryptionKey, optional
            Encrypts this file and all later files of this learner, including checkpoints of `run`.
            Default: the key with which it was loaded or saved before; without one, the file is
            plain. Pickles and copies do not contain the key. Keyword-only.

        Raises
        ------
        StateError
            For a suspended copy, in a forked child before `resume`, and for a class that is not one
            of the library's.
        RoundOrderError
            While another thread is in a compiled run.
        OSError
            If the file cannot be written.

        Notes
        -----
        The file contains the noise key and raw sums of data: guard it, or its key, like the data.
        Never continue it twice on different data: you would publish two streams with the same
        noise.
        """
        self._check_active()
        # Raises in a forked child that has not called `resume`.
        self._engine.check_process()
        self._key = given_key("key", key, self._key)
        write_atomically(path, self._to_bytes(), self._key)

    def _to_bytes(self) -> bytes:
        """Return the state as the bytes of a file or a pickle; as secret as the data."""
        if own_class(type(self)) is None:
            raise StateError(f"a {self._kind} is not one of the library's classes: cannot be saved")
        header = {"kind": self._kind, "library": _core.__version__, "object": self._header()}
        if self._described is not None:
            header["records"] = self._described
        return pack(header, self._payload())

    def _payload(self) -> bytes:
        """Return the part of the state that rounds change, in bytes."""
        state: bytes = self._engine.state()
        return state + self._participants()

    def _digests(self, persons: Persons, rounds: int | None) -> bytes:
        """Return digests of the people of a run (None: of a round); raise if they are not used."""
        if persons is not None:
            named = "person" if rounds is None else "persons"
            raise TypeError(f"{named} would be ignored: this learner enforces no participation")
        return b""

    def _participants(self) -> bytes:
        """Return the limiter's state, if a participation is enforced."""
        return b""

    def _go_on(self, payload: bytes) -> None:
        """Continue from the bytes of `_payload`; `StateError` for other bytes."""
        self._engine.restore(payload)

    @classmethod
    def _from_bytes(cls: type[Self], data: bytes) -> Self:
        """Return the object of a state; `StateError` for anything else, before it gets the key."""
        header, payload = unpack(bytes(data))
        if header.get("kind") != cls._kind:
            raise StateError(f"state is not of a {cls._kind}")
        try:
            # A header may be forged, so the memory that it asks for must not exceed the payload's
            # size.
            if not 0 < 8 * cls._header_dimension(header["object"]) <= len(payload):
                raise StateError("state is corrupt: header and payload differ in size")
            instance = cls._assemble(header["object"])
        except StateError:
            raise
        except Exception as error:
            # The text of the error may quote the file, so only its type is shown.
            raise StateError(
                f"state is corrupt: its description is refused ({type(error).__name__})"
            ) from None
        # This comes last: only an object that has passed all checks gets the state's key.
        instance._go_on(payload)
        return instance

    def resume(self) -> None:
        """Activate an unpickled copy, or a learner inherited through fork, in this process.

        Continue only one copy. Two copies that continue on different data publish two streams with
        the same noise, which reveals their difference. The library cannot detect that another copy
        continues, and the guarantee depends on it.
        """
        # A thread of the parent process may have held the old lock.
        self._sole = threading.Lock()
        self._engine.adopt()
        self._suspended = False

    def clone(self: Self) -> Self:
        """Return an unstarted object with the same arguments and its own noise.

        A clone with a seeded source takes the next stream of this source. Two learners on the same
        data spend two budgets.
        """
        return type(self)(**self._arguments)

    # Without this, ``sklearn.base.clone`` would copy the arguments.
    __sklearn_clone__ = clone

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self._kind, self._to_bytes())

    def __deepcopy__(self: Self, memo: object) -> Self:
        return self.__copy__()

    def __copy__(self: Self) -> Self:
        if self._is_started():
            raise StateError(
                "a started learner cannot be copied, because the copy would share its noise; use "
                "clone() for a fresh one"
            )
        return self.clone()


def find_class(kind: object) -> type[Stateful]:
    """Return the class that a state file names, if it is in the list of learners."""
    known = (each for each in (*LEARNERS, *MONITORS) if each.class_name == kind)
    # Learners that are fitted once have no states.
    learner = next((each for each in known if each.plays != "batch"), None)
    if learner is None:
        raise StateError("state is of a kind this library does not know")
    return learner.load()  # type: ignore[no-any-return]


def _unpickle(kind: str, data: bytes) -> Stateful:
    """Rebuild a pickled object, suspended if started, since the original may still be running.

    An unstarted object with a key from the operating system becomes a clone with its own key, so
    that unpickled copies are independent. A seeded object keeps its reproducible key.
    """
    instance = find_class(kind)._from_bytes(data)
    if instance._is_started():
        instance._suspended = True
    elif not instance._is_seeded:
        return instance.clone()
    return instance


@overload
def load(
    path: str | os.PathLike[str], *, key: EncryptionKey | None = None,
    readable_by_others: bool = False,
) -> Any: ...  # fmt: skip


@overload
def load(
    path: str | os.PathLike[str], kind: type[Self], *, key: EncryptionKey | None = None,
    readable_by_others: bool = False,
) -> Self: ...  # fmt: skip


def load(
    path: str | os.PathLike[str],
    kind: type[Stateful] | None = None,
    *,
    key: EncryptionKey | None = None,
    readable_by_others: bool = False,
) -> Any:
    """Continue a saved learner or mechanism, bit for bit.

    Parameters
    ----------
    path : path-like
        File written by ``save``.
    kind : type, optional
        Expected class, for type checkers and as a check.
    key : EncryptionKey, optional
        Key of an encrypted file; the learner also encrypts its later files with this key. A
        plain file is refused: see `dpoco.encrypt_file`. Keyword-only.
    readable_by_others : bool, default False
        Whether to load a plain file that others than its owner may read or write. Anyone who has
        read it can subtract the noise, so use this only for tests and file systems without modes.

    Returns
    -------
    The learner or mechanism, ready for use.

    Raises
    ------
    StateError
        If the file is corrupt, truncated, foreign or in a newer format, or its object is of another
        kind. If it is encrypted and no key or another one is given. If it is plain and others than
        its owner may read it; the message has the command that fixes this. Nothing is loaded.
    OSError
        If it cannot be read.
    """
    data = read_state(path, key)
    header, _ = unpack(data)
    found = find_class(header.get("kind"))
    if kind is not None and not issubclass(found, kind):
        raise StateError(f"the state is of a {found.__name__}, not of a {kind.__name__}")
    loaded = found._from_bytes(data)
    if key is None and not readable_by_others:
        refuse_readable(Path(path), Path(path).stat())
    loaded._key, loaded._described = key, header.get("records")
    return loaded


def encrypt_file(path: str | os.PathLike[str], key: EncryptionKey) -> None:
    """Encrypt a state file, plain or under one of the keys of `key`, under the last one.

    Use it for plain files, and to rotate keys. The file is replaced atomically. Its old content may
    stay on the disk until it is overwritten, and in backups.

    Parameters
    ----------
    path : path-like
        File written by `save` of a learner, mechanism or pool, or a checkpoint.
    key : EncryptionKey
        Keys for reading; the last one is used for writing.

    Raises
    ------
    StateError
        If the file is no intact state, or is encrypted under another key; nothing changes.
    OSError
        If it cannot be read or written.
    """
    plain = read_state(path, key if is_encrypted(Path(path).read_bytes()) else None)
    # A damaged state must not be encrypted as if it were intact.
    unpack(plain)
    write_atomically(path, plain, key)
