"""Arguments that would change nothing are refused: whoever gives one expects something else."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.local import DistributionLearner, Hypotheses

MATRIX = np.random.default_rng(0).dirichlet(np.ones(6), size=4)
POSTERIOR: dict[str, object] = {}
HEDGE = {"learner": "hedge"}

UNUSED = [
    (POSTERIOR, {"range": "exact"}),
    ({"channel": "bit"}, {"subset_size": 2}),
    ({"channel": "bit"}, {"max_message_bits": 64}),
    ({"channel": "bit", "query": "scheffe"}, {"interactive": True}),
    ({"channel": "subset"}, {"query": "scheffe"}),
    ({"channel": "subset"}, {"bits": 2}),
    ({"channel": "subset"}, {"interactive": True}),
    (HEDGE, {"query": "loss"}),
    (HEDGE, {"subset_size": 2}),
    (HEDGE, {"bits": 2}),
    (HEDGE, {"max_message_bits": 64}),
    (HEDGE, {"track_information": True}),
    ({**HEDGE, "channel": "subset"}, {"range": "worst_case"}),
    ({**HEDGE, "channel": "subset"}, {"interactive": True}),
]


@pytest.mark.parametrize(("learner", "option"), UNUSED)
def test_unused_arguments_are_refused(learner, option):
    hypotheses = Hypotheses(MATRIX)
    DistributionLearner(hypotheses, epsilon=1.0, **learner)
    with pytest.raises(ValueError, match=f"{next(iter(option))} is not used"):
        DistributionLearner(hypotheses, epsilon=1.0, **{**learner, **option})


@pytest.mark.parametrize(
    "given",
    [
        {"query": "loss", "range": "worst_case", "channel": "bit"},
        {"interactive": True},
        {"interactive": True, "query": "scheffe"},  # chooses between bits and subsets
        {"subset_size": 2, "bits": 2, "max_message_bits": 64},
        {"channel": "subset", "subset_size": 2},
        {**HEDGE, "learning_rate": 0.1, "range": "worst_case", "mixing": 0.1},
        {**HEDGE, "interactive": True},
        {**HEDGE, "learning_rate": 7.5, "bits": 1},
        {**HEDGE, "interactive": True, "range": "exact"},
        {**HEDGE, "channel": "subset", "subset_size": 2},
    ],
)
def test_used_arguments_are_taken(given):
    DistributionLearner(Hypotheses(MATRIX), epsilon=1.0, **given)


@pytest.mark.parametrize("learner", [POSTERIOR, HEDGE])
def test_pure_channels_promise_no_delta(learner):
    server = DistributionLearner(Hypotheses(MATRIX), epsilon=1.0, **learner)
    assert (server.guarantee.epsilon, server.guarantee.delta) == (1.0, 0.0)
    assert server.guarantee_for(7).delta == 0.0
