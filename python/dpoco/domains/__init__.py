"""Sets of decisions: l_p balls, boxes, simplices, polytopes and hulls of listed vertices.

Each set knows its geometry (the exponent ``p`` of the norm its learners work in), its diameter
and largest norm in every ``l_q`` norm, and answers membership, Euclidean projection and linear
minimisation. Sets are immutable values: equal when their parameters are, picklable, and
restored from JSON by :func:`from_dict`.
"""

from __future__ import annotations

from dpoco._validation import Named
from dpoco.domains._polytope import Polytope
from dpoco.domains._sets import Box, Domain, Geometry, LpBall, Simplex, VertexSet

__all__ = ["Box", "Domain", "Geometry", "LpBall", "Polytope", "Simplex", "VertexSet", "from_dict"]

_KINDS: dict[str, type[Domain]] = {
    kind.__name__: kind for kind in (LpBall, Box, Simplex, Polytope, VertexSet)
}


def from_dict(state: Named) -> Domain:
    """Rebuild a domain from the result of its ``to_dict``.

    Parameters
    ----------
    state
        Mapping with the key ``type`` and the constructor's arguments.

    Returns
    -------
    Domain
        The saved domain, bit for bit.

    Raises
    ------
    ValueError, TypeError
        If the type is unknown, or arguments are missing, unexpected or out of range.
    """
    arguments = dict(state)
    kind = arguments.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"domain type must be one of {sorted(_KINDS)}")
    return _KINDS[kind]._from_arguments(arguments)
