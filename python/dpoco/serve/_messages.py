"""Requests and answers, defined once: to check requests and to make the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from dpoco._json import of_json
from dpoco.errors import StateError
from dpoco.serve._tokens import LONGEST_NAME

_LONGEST_REQUEST = 100

User = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
_USER = (
    "Whose visit it is. A user's token may leave it out; an operator's token and a public service "
    "need it."
)


class BadRequest(Exception):  # noqa: N818
    """A body that does not fit its schema; texts name fields and quote no value.

    Parameters
    ----------
    reason : str
        What is wrong, for the client.
    status : int
        422, or 400 for a body that is no JSON.
    """

    def __init__(self, reason: str, status: int = 422) -> None:
        super().__init__(reason)
        self.status = status


class Message(BaseModel):
    """A JSON object whose fields are all known, and of their types: "1" is no number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class AskDecision(Message):
    """A visit: what is known of the user now, and a name under which it can be sent again."""

    user: User | None = Field(default=None, description=_USER)
    context: list[float] = Field(description="Clipped to the service's l2 norm.")
    request: str | None = Field(
        default=None, min_length=1, max_length=_LONGEST_REQUEST,
        description="A name of this request: sent again, it gets the same answer.",
    )  # fmt: skip


class Decision(Message):
    """The arm to show, and the ticket with which its reward comes."""

    arm: int
    ticket: str


class BringReward(Message):
    """The reward of a decision; before the ticket's turn."""

    ticket: str = Field(min_length=1, max_length=100)
    reward: float = Field(description="Clipped to the service's range.")


class AskDeletion(Message):
    """Forget what waits for a user."""

    user: User | None = Field(default=None, description=_USER)


class Done(Message):
    """It is done."""


class Deleted(Message):
    """How many rounds ended empty."""

    rounds: int


class Health(Message):
    """Whether decisions can be asked for."""

    ready: bool


class Failure(Message):
    """Why nothing was done: names of fields, never values."""

    error: str


def ask_decision_type(dimension: int) -> type[AskDecision]:
    """Return `AskDecision` for contexts of so many numbers.

    The length is public, and a wrong one is refused before anything is drawn.
    """
    info: FieldInfo = AskDecision.model_fields["context"]
    limits = Field(min_length=dimension, max_length=dimension, description=info.description)
    return create_model("AskDecision", __base__=AskDecision, context=(list[float], limits))


M = TypeVar("M", bound=Message)


def parse(body: bytes, kind: type[M]) -> M:
    """Return the message of a body.

    Numbers beyond the range of doubles become infinite and count as missing, so that an exception
    never depends on a value.

    Parameters
    ----------
    body : bytes
        JSON in UTF-8.
    kind : class
        The message that is wanted.

    Raises
    ------
    BadRequest
        400 if it is no JSON or has a field twice, 422 if a field is missing, unknown or of another
        type. The text names at most five fields.
    """
    try:
        # `int` refuses more than 4300 digits, so that an error would depend on a value.
        # Clients of some languages begin UTF-8 with a mark.
        record = of_json(body.decode("utf-8-sig"), parse_int=float)
    except (ValueError, StateError):
        raise BadRequest("the body is no JSON, or has a field twice", 400) from None
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        # A body with thousands of wrong fields must not get an answer that is as long.
        raise BadRequest("; ".join(_describe(each) for each in error.errors()[:5])) from None


def _describe(error: Any) -> str:
    """Return an error of pydantic's in words: the field and what it should be, no value."""
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":  # whose place is a word of the caller's
        return "there is a field that the schema does not have"
    if error["type"] == "string_unicode":
        return f"{place}: Input should be a text of Unicode characters"
    return f"{place}: {error['msg']}" if place else "the body must be a JSON object"
