"""Actors that are asked until they have answered: restarts are waited for, questions repeated."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from dpoco.errors import DpocoError

__all__ = ["Actors", "imported_ray"]


def imported_ray() -> Any:
    """Return the module, or raise `ImportError` that names the extra."""
    try:
        import ray
    except ImportError:
        raise ImportError("RayPool needs Ray: pip install 'dpoco[ray]'") from None
    return ray


class Actors:
    """Actors of one class, restarted by Ray whenever they die; their methods must be idempotent.

    Parameters
    ----------
    ray : module
    kind : type
        Class of the actors.
    arguments : list of tuple
        Of the constructor, for each actor.
    options : mapping
        Of Ray.
    patience : float
        Seconds for which an actor that died is waited for.
    """

    def __init__(
        self,
        ray: Any,
        kind: type,
        arguments: list[tuple[Any, ...]],
        options: Mapping[str, Any],
        patience: float,
    ) -> None:
        self._ray, self._patience = ray, patience
        # Ray itself repeats nothing: it knows nothing of rounds.
        actor = ray.remote(**{**options, "max_restarts": -1, "max_task_retries": 0})(kind)
        self.handles = [actor.remote(*each) for each in arguments]

    def __len__(self) -> int:
        return len(self.handles)

    def ask_all(self, *task: Any) -> list[Any]:
        """Return the answers of all actors to one question, a method and its arguments."""
        answers = self.ask(dict.fromkeys(range(len(self)), task))
        return [answers[number] for number in range(len(self))]

    def ask(self, tasks: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Return the answers of some actors, each to its question.

        Raises
        ------
        TimeoutError
            If an actor that died is not back in time.
        Exception
            The first of the actors' own errors, once the others have answered.
        """
        errors = self._ray.exceptions
        answers: dict[int, Any] = {}
        failure: BaseException | None = None
        waiting = dict(tasks)
        deadline, pause = time.monotonic() + self._patience, 0.01
        while waiting:
            asked = {
                number: getattr(self.handles[number], method).remote(*arguments)
                for number, (method, *arguments) in waiting.items()
            }
            waiting = {}
            for number, answer in asked.items():
                try:
                    answers[number] = self._ray.get(answer)
                except errors.RayActorError:
                    waiting[number] = tasks[number]  # whether it was done, its journal knows
                except errors.RayTaskError as error:
                    failure = failure or _cause(error)
            if failure is not None:
                raise failure from None
            if waiting:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(waiting)} shards are not back: send the batch again")
                time.sleep(pause)
                pause = min(2.0 * pause, 1.0)
        return answers

    def stop(self) -> None:
        """End all actors for good."""
        for handle in self.handles:
            self._ray.kill(handle, no_restart=True)
        self.handles = []


def _cause(error: Any) -> BaseException:
    """Return an actor's own error: without the text of Ray, which quotes where it came from."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, (DpocoError, OSError, TypeError, ValueError)):
        return cause
    own: BaseException = error
    return own
