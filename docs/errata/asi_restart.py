"""Asi et al., Algorithm 2, lines 11 and 12: a restart in the round of the alarm uses it twice.

Two experts. One instance, with noise of scales b (selection), b1 (threshold) and b2 (queries), all
exponential, is epsilon-private with 2/b + 2/b1 + 2/b2 = 1. Its query is the largest regret of a
window that ends now; an alarm means query + noise >= THRESHOLD + noise of the threshold. Expert 0
plays rounds 1 and 2, losses of round 1 are (1, 0), of round 3 (1, 0); those of round 2 are (1, 0)
or (0, 1). Seen are: silence in round 1, an alarm in round 2, then expert 1, and an alarm in round
3. The new instance begins with round 2: that round decides both alarms and the selection.
"""

import math

B, B1, B2, THRESHOLD = 40.0, 40.0, 20 / 9, 5.0
assert math.isclose(2 / B + 2 / B1 + 2 / B2, 1.0)


def regret(played, losses):
    """Return the largest regret of all windows that end now, against any fixed expert."""
    sums = [
        sum(row[own] - row[other] for own, row in zip(played[s:], losses[s:], strict=True))
        for s in range(len(losses))
        for other in (0, 1)
    ]
    return max(sums)


def alarm(query):
    """Return the chance of an alarm, but for factors that do not depend on a query below 5."""
    assert query <= THRESHOLD
    return math.exp(-(THRESHOLD - query) / B2)


def chance(second):
    """Return the chance of what is seen, but for equal factors (round 1)."""
    first, third = (1, 0), (1, 0)
    old = alarm(regret([0, 0], [first, second]))
    worse = 0.5 * math.exp(-abs(second[0] - second[1]) / B)  # the argmin of two noisy losses
    expert_1 = 1 - worse if second[1] < second[0] else worse
    new = alarm(regret([0, 1], [second, third]))
    return old * expert_1 * new


ratio = math.log(chance((1, 0)) / chance((0, 1)))
print(f"claimed epsilon = 1; at least {ratio:.3f}")
