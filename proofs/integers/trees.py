"""Nodes of the tree and of Honaker's estimates, t = 1..n, on intervals of leaves, not numbers.

A model of what comments quote; tests/docs/test_proofs.py holds them to the code.
"""

# cpp/src/mechanisms/noise_process.cpp:
#     const double* base = before == 0 ? nullptr : prefix[std::countr_zero(before)];
#     simd::kernels().extend(base, node, scale, d, prefix[std::countr_zero(t)], out);


def trailing_zeros(t):
    """Return the level of the highest node that leaf t completes."""
    return (t & -t).bit_length() - 1


def check(n):
    """Follow both programs for n rounds."""
    prefix, estimates, draws = {}, {}, 0
    for t in range(1, n + 1):
        before, top = t & (t - 1), trailing_zeros(t)
        prefix[top] = (prefix[trailing_zeros(before)] if before else ()) + ((top, t),)
        want, at = [], 0
        for level in reversed(range(t.bit_length())):
            if t >> level & 1:
                at += 1 << level
                want.append((level, at))
        assert prefix[top] == tuple(want), "the prefix is the binary expansion of t"
        leaves = [i for level, end in want for i in range(end - (1 << level) + 1, end + 1)]
        assert leaves == list(range(1, t + 1)), "its nodes hold every leaf once"
        # After leaf t, levels below `top` merge with the sibling that is stored there.
        node, draws = (t, t), draws + 1
        for level in range(top):
            left = estimates[level]
            assert left[1] + 1 == node[0], "siblings are adjacent"
            assert left[1] - left[0] + 1 == 1 << level == node[1] - node[0] + 1
            node, draws = (left[0], node[1]), draws + 1
        estimates[top] = node
    assert draws == 2 * n - n.bit_count(), "draws of Honaker's estimates"


for rounds in [*range(1, 257), 2048]:
    check(rounds)
print("proved: prefixes, siblings and numbers of draws of trees, n = 1..256 and 2048")
