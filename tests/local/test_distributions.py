"""Classes of distributions: shapes, laws, and the hard class's proof in numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from distributions import (
    dirichlet_class,
    draw_labels,
    hadamard_class,
    misspecified,
    near_duplicates,
    softmax_class,
)


def entropy(rows):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(rows > 0, rows * np.log(rows), 0.0).sum(axis=-1)


def test_shapes_and_sums():
    for rows, shape in (
        (dirichlet_class(8, 16, seed=1), (8, 16)),
        (dirichlet_class(8, 50, concentration=0.1, seed=1), (8, 50)),
        (dirichlet_class(4, 3, contexts=7, seed=1), (7, 4, 3)),
        (dirichlet_class(200, 3, concentration=1e-4, seed=1), (200, 3)),  # underflow
        (softmax_class(8, 6, seed=1), (50, 8, 6)),
        (near_duplicates(8, 16, seed=1), (8, 16)),
        (misspecified(dirichlet_class(4, 3, contexts=7, seed=1), seed=2), (7, 4, 3)),
        (misspecified([0.2, 0.8], seed=2), (2,)),
    ):
        assert rows.shape == shape
        assert (rows >= 0.0).all()
        np.testing.assert_allclose(rows.sum(axis=-1), 1.0, atol=1e-12)


def test_seeds():
    for make in (dirichlet_class, softmax_class, near_duplicates):
        np.testing.assert_array_equal(make(3, 4, seed=5), make(3, 4, seed=5))
        assert not np.array_equal(make(3, 4, seed=5), make(3, 4, seed=6))
        assert not np.array_equal(make(3, 4), make(3, 4))
        for bad in (-1, 0.5, True):
            with pytest.raises((ValueError, TypeError), match="seed"):
                make(3, 4, seed=bad)


def test_what_the_classes_are_like():
    flat, rare = (
        dirichlet_class(200, 50, seed=0),
        dirichlet_class(200, 50, concentration=0.1, seed=0),
    )
    assert entropy(rare).mean() < 0.7 * entropy(flat).mean()
    # Uniform on the simplex: E sum p^2 = 2 / (M + 1).
    assert (flat**2).sum(axis=1).mean() == pytest.approx(2 / 51, rel=0.1)
    twins = near_duplicates(20, 30, seed=0)
    assert 0.5 * np.abs(twins - twins.mean(axis=0)).sum(axis=1).max() < 0.12
    ratios = np.log(twins[1:] / twins[:1])
    assert ratios.std() == pytest.approx(0.15 * math.sqrt(2), rel=0.2)
    shifted = misspecified(flat, share=0.3, seed=1)
    assert (shifted >= 0.7 * flat - 1e-15).all()
    assert 0.5 * np.abs(shifted - flat).sum(axis=1).max() <= 0.3
    np.testing.assert_array_equal(misspecified(flat, share=0.0, seed=1), flat)


def test_labels_have_the_law():
    truth = np.array([[0.5, 0.0, 0.3, 0.2], [0.0, 1.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.7]])
    contexts = np.random.default_rng(0).integers(0, 3, size=60_000)
    labels = draw_labels(truth, contexts=contexts, seed=1)
    assert labels.shape == (60_000,)
    for context in range(3):
        seen = np.bincount(labels[contexts == context], minlength=4) / (contexts == context).sum()
        assert np.abs(seen - truth[context]).max() < 0.02
        assert (seen[truth[context] == 0] == 0).all()
    single = draw_labels(truth[0], 60_000, seed=1)
    assert np.abs(np.bincount(single, minlength=4) / 60_000 - truth[0]).max() < 0.02
    for bad in ((truth,), (truth[0],), (truth, 5), (truth[0], 5, contexts)):
        with pytest.raises(ValueError, match="rounds"):
            draw_labels(*bad)
    with pytest.raises(TypeError):
        draw_labels(truth, contexts=[0.5, 1.0])


@pytest.mark.parametrize(("pairs", "labels"), [(1, 2), (2, 4), (3, 4), (4, 8), (7, 8)])
@pytest.mark.parametrize("variant", ["corrected", "printed"])
def test_the_hard_class(pairs, labels, variant):
    made = hadamard_class(pairs, 1000, 1.0, variant)
    assert made.matrix.shape == (2 * pairs, labels)
    np.testing.assert_allclose(made.matrix.sum(axis=1), 1.0, atol=1e-14)
    assert (made.matrix >= 0).all()
    sign = [[(-1) ** (i & y).bit_count() for y in range(labels)] for i in range(1, pairs + 1)]
    np.testing.assert_array_equal(made.matrix[::2], (1 - np.array(sign)) / labels)
    steps = made.matrix[1::2] - made.matrix[::2]
    np.testing.assert_allclose(steps, made.gap * np.array(sign) / labels, atol=1e-15)
    signal = min(math.expm1(1.0) ** 2 / 4, math.e)
    expected = {
        "corrected": math.sqrt(2 * pairs / (9 * 1000 * signal)),
        "printed": math.sqrt(pairs / (9 * 1000 * math.e)),
    }[variant]
    assert made.gap == pytest.approx(expected)
    if variant == "corrected":
        assert made.risk_lower_bound() == pytest.approx(math.log(2) / 6 * made.gap * 1000)
        assert made.risk_lower_bound() >= math.sqrt(2 * pairs * 1000 / (9 * signal)) / 24
    assert made.risk_lower_bound(epsilon=0.5) > made.risk_lower_bound()
    assert made.risk_lower_bound(rounds=10**9) == 0.0  # made for a thousand


def test_no_randomizer_tells_the_pairs_apart_better():
    # The heart of the proof: sum_i KL(reports of p_i1, of p_i2) <= a^2 G, for extreme randomizers.
    rng = np.random.default_rng(0)
    for epsilon in (0.3, 1.0, 3.0):
        made = hadamard_class(7, 100_000, epsilon)
        signal = min(math.expm1(epsilon) ** 2 / 4, math.exp(epsilon))
        best = 0.0
        for _ in range(200):
            plus = rng.random(8) < rng.random()
            one = np.where(plus, math.exp(epsilon), 1.0) / (1 + math.exp(epsilon))
            laws = made.matrix @ np.stack([one, 1 - one], axis=1)
            told = sum(
                float((p * np.log(p / q)).sum()) for p, q in zip(laws[::2], laws[1::2], strict=True)
            )
            best = max(best, told)
            assert told <= made.gap**2 * signal
        assert best > 0.05 * made.gap**2 * signal


def test_no_prediction_is_good_for_both_of_a_pair():
    # The other half of it: KL(p_1, q) + KL(p_2, q) >= (a / 2) log 2 for every q.
    for rounds in (10, 1000):
        made = hadamard_class(3, rounds, 1.0)
        first, second = made.matrix[:2]
        least = math.inf
        for cut in np.linspace(1e-6, 0.5, 2000):
            q = np.where(first == 0, cut / 2, (1 - cut) / 2)
            costs = [float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()) for p in (first, second)]
            least = min(least, sum(costs))
        assert least >= 0.5 * made.gap * math.log(2)
        assert least < 1.2 * 0.5 * made.gap * math.log(2) + 0.1 * (rounds == 10)


def test_bad_arguments():
    for call in (
        lambda: hadamard_class(0, 10, 1.0),
        lambda: hadamard_class(3, 0, 1.0),
        lambda: hadamard_class(3, 10, 0.0),
        lambda: hadamard_class(3, 10, 1.0, "other"),
        lambda: hadamard_class(63, 10, 0.1),  # a gap above 1
        lambda: dirichlet_class(0, 3),
        lambda: dirichlet_class(3, 3, concentration=0.0),
        lambda: near_duplicates(3, 3, spread=-1.0),
        lambda: misspecified([0.5, 0.5], share=1.5),
    ):
        with pytest.raises(ValueError, match=r"must|exceed"):
            call()
    assert "gap" in repr(hadamard_class(3, 1000, 1.0))
    assert len(list(itertools.chain(hadamard_class(3, 1000, 1.0).matrix))) == 6
