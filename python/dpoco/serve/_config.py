"""The configuration file of a service: strict types, known keys, errors that name the key."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

import dpoco
from dpoco._encryption import KEY_BYTES, EncryptionKey
from dpoco.accounting.linucb import EXPLORATION
from dpoco.learners import learner_named

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[FiniteFloat, Field(gt=0.0)]
Place = Annotated[Path, Field(strict=False)]  # a text, in a file


class Table(BaseModel):
    """A table whose keys are all known.

    Types are strict: a text is not a number, and true is not 1. A misspelt key would otherwise
    leave its default in force, so that a limit would differ from what the operator has written.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Bandit(Table):
    """The learner, a linear contextual bandit, and what one person may do.

    Attributes
    ----------
    arms, dimension : int
        Number of arms, and of numbers in a context.
    horizon : int
        Decisions that the service ever makes.
    epsilon, delta : float
        Budget of all rounds of one person together.
    rounds_per_person : int
        Rounds of one person from which the bandit learns. It answers further requests of this
        person, but does not learn from them.
    separation : int, default 1
        Rounds from one of these to the next, at least.
    context_bound, reward_bound : float
        Contexts are clipped to this l2 norm, rewards to [-reward_bound, reward_bound].
    feedback_seconds : float
        Time from a decision to the turn of its ticket, when its round is played.
    exploration : float, default 0.1
        As for the learner "linucb".
    """

    arms: Annotated[int, Field(ge=2, le=4096)]
    dimension: Annotated[int, Field(ge=1, le=1024)]
    horizon: Count
    epsilon: Positive
    delta: Annotated[FiniteFloat, Field(gt=0.0, lt=1.0)]
    rounds_per_person: Count
    separation: Count = 1
    context_bound: Positive
    reward_bound: Positive
    feedback_seconds: Annotated[FiniteFloat, Field(ge=0.0)]
    exploration: Positive = EXPLORATION

    @property
    def budget(self) -> dpoco.Budget:
        """The guarantee for one person against all others."""
        return dpoco.Budget(self.epsilon, self.delta)

    def learner(self) -> Any:
        """Return a fresh learner; `ValueError`, `CalibrationError` if no noise meets the budget."""
        people = dpoco.Participation(
            self.rounds_per_person,
            self.separation,
            # A round has one person, so the limit on people is never met.
            max_persons=self.horizon,
        )
        return learner_named("linucb").load()(
            self.arms, self.dimension, horizon=self.horizon, budget=self.budget,
            participation=people, context_bound=self.context_bound,
            reward_bound=self.reward_bound, exploration=self.exploration,
        )  # fmt: skip


class Store(Table):
    """Where the service keeps what it must not lose; places are relative to the file.

    Attributes
    ----------
    folder : path
        Made at the first start, mode 0700: the journal, and the tickets that wait.
    mark : path
        File on another disk that tells when the journal was set back to an older copy.
    key : path, optional
        File of the key that encrypts everything in `folder`; made at the first start, mode 0600.
        Default: the name of the configuration with the ending ``.key``.
    durability : {"disk", "process"}, default "disk"
        As for `dpoco.journal.SqliteStore`.
    """

    folder: Place
    mark: Place
    key: Place | None = None
    durability: Literal["disk", "process"] = "disk"


class Limits(Table):
    """The limits on requests of one user, and of all users together.

    Attributes
    ----------
    user_requests_per_second : int, default 50
        Requests of one user in a second.
    user_tickets : int, default 100
        Tickets of one user that wait.
    tickets : int, default 10000
        Tickets of all users that wait. Each commit writes some 50 bytes for each.
    connections : int, default 512
        Open connections. A further one closes the connection whose client has kept the service
        waiting longest.
    body_bytes : int, default 65536
        Bytes of a request's body.
    client_seconds : float, default 15
        Time that a client may take to send a request, or to read its answer.
    token_overlap_seconds : float, default 604800
        Time that a user's older tokens stay valid when a new one is made.
    """

    user_requests_per_second: Count = 50
    user_tickets: Count = 100
    tickets: Count = 10_000
    connections: Annotated[int, Field(ge=8)] = 512
    body_bytes: Annotated[int, Field(ge=1024)] = 65_536
    client_seconds: Annotated[FiniteFloat, Field(ge=1.0)] = 15.0
    token_overlap_seconds: Annotated[FiniteFloat, Field(ge=0.0)] = 604_800.0


class Settings(Table):
    """All settings of the file.

    Attributes
    ----------
    bandit : Bandit
        The learner; it cannot be changed once the service has begun.
    store : Store
        Places and key; absolute after `read`.
    limits : Limits
        They may be changed between two starts.
    """

    bandit: Bandit
    store: Store
    limits: Limits = Limits()

    @classmethod
    def read(cls, record: object, file: Path) -> Settings:
        """Return the settings of a file that was parsed.

        Parameters
        ----------
        record : dict
            What the file holds.
        file : Path
            Its name, for messages and for the places that are relative to it.

        Raises
        ------
        ValueError
            If a key is missing, unknown or wrong; the message names all such keys.
        """
        try:
            settings = cls.model_validate(record)
        except ValidationError as error:
            wrong = [(".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
            raise ValueError("; ".join(f"{file.name}, {key}: {m}" for key, m in wrong)) from None
        given = settings.store
        key = given.key or Path(file.name).with_suffix(".key")
        places = {"folder": given.folder, "mark": given.mark, "key": key}
        store = given.model_copy(
            update={name: (file.parent / path).resolve() for name, path in places.items()}
        )
        for name, path in (("mark", store.mark), ("key", store.key)):
            if path is not None and path.is_relative_to(store.folder):
                raise ValueError(
                    f"{file.name}, store.{name}: it belongs elsewhere than store.folder, whose "
                    "copies it must not be in; best on another disk"
                )
        return settings.model_copy(update={"store": store})


def folder_and_key(store: Store) -> EncryptionKey:
    """Make what is missing at the first start, and return the key.

    Parameters
    ----------
    store : Store
        From `Settings.read`, with absolute places.

    Raises
    ------
    ValueError
        If the folder is in use and the key is gone.
    StateError
        If others than the owner may read the key.
    """
    assert store.key is not None  # `Settings.read` has set it
    store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not store.key.exists():
        # A fresh key would open nothing that is in the folder.
        if any(store.folder.iterdir()):
            raise ValueError(f"store.key: {store.key} is gone, and store.folder is encrypted by it")
        _make_key(store.key)
    store.mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return EncryptionKey.from_file(store.key)


def _make_key(path: Path) -> None:
    """Write a fresh key; a crash leaves the whole key, or a file of another name."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The key is first written under another name: a crash must not leave half a key in its place.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(KEY_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        # If two processes start at once, one key stays, and both read it. A rename would replace
        # the first key, under which rows may be sealed already.
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        draft.rename(path)
        return
    draft.unlink()
