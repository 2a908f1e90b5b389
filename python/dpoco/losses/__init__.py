"""Families of convex losses with public bounds, on which guarantees rely.

A family states how long a record may be. The learner clips every record to that length, so the
bounds hold for all data. They determine the constants of the theory: the Lipschitz constant and
smoothness over a domain, and the bounds on the vector that a round adds to a private sum
(``docs/privacy/leaf_bounds.md``). Losses are immutable values, and :func:`from_dict` restores them
from JSON.
"""

from __future__ import annotations

from inspect import signature

from dpoco._validation import Named
from dpoco.losses._base import Loss
from dpoco.losses._general import CustomLoss, LinearLoss, QuadraticLoss
from dpoco.losses._glm import GlmLoss
from dpoco.losses._margin import HuberLoss, LogisticLoss, MarginLoss, SquaredLoss, check_undamped

__all__ = [
    "CustomLoss",
    "GlmLoss",
    "HuberLoss",
    "LinearLoss",
    "LogisticLoss",
    "Loss",
    "MarginLoss",
    "QuadraticLoss",
    "SquaredLoss",
    "check_undamped",
    "from_dict",
]  # fmt: skip

_KINDS: dict[str, type[Loss]] = {
    kind.__name__: kind
    for kind in (
        SquaredLoss,
        LogisticLoss,
        HuberLoss,
        GlmLoss,
        LinearLoss,
        QuadraticLoss,
        CustomLoss,
    )
}


def from_dict(state: Named) -> Loss:
    """Rebuild a loss from the result of its ``to_dict``.

    Parameters
    ----------
    state
        Mapping with the key ``type`` and every constructor argument.

    Returns
    -------
    Loss
        The saved loss, bit for bit.

    Raises
    ------
    ValueError, TypeError
        If the type is unknown, or arguments are missing, unexpected or out of range.
    """
    arguments = dict(state)
    kind = arguments.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"loss type must be one of {sorted(_KINDS)}")
    expected = set(signature(_KINDS[kind]).parameters)
    # `to_dict` leaves these keys out if they are None.
    if set(arguments) | ({"slope_bound", "values", "gradients", "hessians"} & expected) != expected:
        raise ValueError(f"{kind} needs exactly the keys {sorted(expected)}")
    return _KINDS[kind](**arguments)
