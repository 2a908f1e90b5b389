"""The contract of learners and mechanisms: what callers rely on, as checks that anybody may run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dpoco._validation import named
from dpoco.audit import _contract_arguments, _contract_copies, _contract_rounds
from dpoco.audit._contract import EVERY, Check, InapplicableError, _listed, _subject
from dpoco.audit._family import Learner, Stream, quiet
from dpoco.learners import learner_named

__all__ = ["check_learner", "contract_checks"]

# All checks by name: what ``@check`` made of functions.
CHECKS: dict[str, Check] = {
    name: each
    for module in (_contract_rounds, _contract_copies, _contract_arguments)
    for name, each in vars(module).items()
    if isinstance(each, Check)
}


def contract_checks(plays: str | None = None) -> tuple[str, ...]:
    """Return the names of all checks, or of the checks for learners that play `plays`.

    Parameters
    ----------
    plays : str, optional
        As in `dpoco.learners`.
    """
    return tuple(name for name, each in CHECKS.items() if plays is None or plays in each.plays)


def check_learner(
    learner: str | type | Callable[..., Learner],
    stream: Stream = None,
    *,
    checks: Iterable[str] | None = None,
) -> tuple[str, ...]:
    """Check that a learner keeps the contract that journals, pools, adapters and users need.

    Your own class need only be a `dpoco.evaluation.Learner`. Checks of methods that it does not
    have, such as ``run``, ``save`` and tickets, are skipped.

    Parameters
    ----------
    learner : str, type or callable
        A name of `dpoco.learners`; a class, whose problem is made up from the names of its
        arguments; or a function that returns an unstarted learner. The function takes keyword
        arguments of the constructor (``horizon``, or ``records`` for a one-time fit, ``source``,
        and in some checks others). An example is ``functools.partial(MyLearner, domain, loss,
        budget=budget)``.
    stream : array_like, or tuple of array_like, optional
        At least 25 records, as ``run`` or ``fit`` takes them; lists of loss objects for custom
        losses. Default: random records with the shapes that the learner states.
    checks : iterable of str, optional
        Names of `contract_checks`. Default: all.

    Returns
    -------
    tuple of str
        Names of the checks that applied, all of which passed.

    Raises
    ------
    AssertionError
        At the first check that fails, with its name, what was found, and the rule.
    ValueError, TypeError
        For an unknown name, or a learner whose problem or stream must be given.

    Notes
    -----
    It takes seconds. The checks call the learner in every order, with bad and hostile records, from
    threads and forked processes, and save files in a temporary folder. They cannot show that a
    guarantee holds: proofs and `audit_learner` serve this purpose.

    Examples
    --------
    >>> import dpoco
    >>> len(dpoco.audit.check_learner("prefix-hedge")) > 30
    True
    """
    known = contract_checks()
    chosen = known if checks is None else tuple(checks)
    for name in chosen:
        named("check", name, known)
    if isinstance(learner, str) and stream is None:
        subject = _listed(learner_named(learner, (*EVERY, "intervals")).name)
    else:
        subject = _subject(learner, stream)
    passed = []
    for name in chosen:
        each = CHECKS[name]
        if not each.applies(subject):
            continue
        try:
            with quiet():
                each.run(subject)
        except InapplicableError:
            continue
        except Exception as error:
            found = str(error) if isinstance(error, AssertionError) else repr(error)
            raise AssertionError(
                f"{subject.kind.__name__} fails the check {name}: {found}\n{each.run.__doc__}"
            ) from error
        passed.append(name)
    return tuple(passed)
