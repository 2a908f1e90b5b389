"""Records of the coupled learners: clipping, and custom losses over their bounds."""

from __future__ import annotations

import numpy as np

T = 24


def test_huge_records_are_clipped(coupled, any_problem):
    """Not only do they do no harm: they act as the record on the bound does."""
    if any_problem.endswith("custom"):
        return
    huge, clipped = coupled.stream(any_problem, T), coupled.stream(any_problem, T)
    domain, loss = coupled.make(any_problem).domain, coupled.losses[any_problem.split()[3]]
    if huge.kind == "quadratic":
        matrices, vectors = clipped.data
        scaled = matrices * 1e3, vectors * 1e3
        factors = loss.scales(domain, *scaled)
        clipped.data = (factors[:, None, None] * scaled[0], factors[:, None] * scaled[1])
        huge.data = scaled
    else:
        norms = np.linalg.norm(huge.data[0], ord=domain.dual_exponent, axis=1)
        huge.data[0][...] *= (1e200 / norms)[:, None]
        clipped.data[0][...] /= norms[:, None]
    got, want = coupled.make(any_problem), coupled.make(any_problem)
    decisions = huge.play(got, 0, T)
    assert np.allclose(decisions, clipped.play(want, 0, T), atol=1e-8)
    assert got.switches == want.switches
    assert all(domain.contains(each) for each in decisions)
