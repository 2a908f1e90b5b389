"""Nodes of the tree, t = 1..n, on intervals of leaves, not numbers.

A model of what comments quote; tests/docs/test_proofs.py holds them to the code.
"""

# cpp/src/mechanisms/noise_process.cpp:
#     const double* base = before == 0 ? nullptr : prefix[std::countr_zero(before)].data();
#     double* own = prefix[std::countr_zero(t)].data();
#     simd::kernels().extend(base, out.data(), scale, out.size(), own, out.data());


def trailing_zeros(t):
    """Return the level of the highest node that leaf t completes."""
    return (t & -t).bit_length() - 1


def check(n):
    """Follow the program for n rounds."""
    prefix = {}
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


for rounds in [*range(1, 257), 2048]:
    check(rounds)
print("proved: prefixes of trees, n = 1..256 and 2048")
