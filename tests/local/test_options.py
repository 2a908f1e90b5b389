"""Arguments that would change nothing are refused: whoever gives one expects something else."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.local import DistributionLearner, Hypotheses

MATRIX = np.random.default_rng(0).dirichlet(np.ones(6), size=4)
POSTERIOR: dict[str, object] = {}
HEDGE = {"learner": "hedge"}
PAPER = {"learner": "paper_exp3", "horizon": 100}
WMA = {"learner": "paper_wma", "horizon": 100, "delta": 1e-6}
VECTOR = {"learner": "hedge", "channel": "vector"}

UNUSED = [
    (POSTERIOR, {"eta": 0.1}),
    (POSTERIOR, {"eta": "worst_case"}),
    (POSTERIOR, {"sensitivity": "exact"}),
    (POSTERIOR, {"noise": "laplace"}),
    (POSTERIOR, {"delta": 1e-6}),
    (POSTERIOR, {"range": "exact"}),
    (POSTERIOR, {"sampling": "adaptive"}),
    ({"channel": "bit"}, {"subset_size": 2}),
    ({"channel": "bit"}, {"max_message_bits": 64}),
    ({"channel": "bit", "query": "scheffe"}, {"interactive": True}),
    ({"channel": "subset"}, {"query": "scheffe"}),
    ({"channel": "subset"}, {"bits": 2}),
    ({"channel": "subset"}, {"interactive": True}),
    (HEDGE, {"temperature": 0.5}),
    (HEDGE, {"sensitivity": "exact"}),
    (HEDGE, {"delta": 1e-6}),
    (HEDGE, {"subset_size": 2}),
    (HEDGE, {"interactive": True}),
    (HEDGE, {"bits": 2}),
    (HEDGE, {"max_message_bits": 64}),
    (HEDGE, {"track_information": True}),
    ({**HEDGE, "channel": "subset"}, {"range": "worst_case"}),
    ({**HEDGE, "channel": "subset"}, {"noise": "laplace"}),
    ({**HEDGE, "channel": "subset"}, {"delta": 1e-6}),
    ({**HEDGE, "noise": "laplace"}, {"delta": 1e-6}),
    ({**HEDGE, "noise": "laplace"}, {"range": "worst_case"}),
    (VECTOR, {"range": "worst_case"}),
    (VECTOR, {"subset_size": 2}),
    (VECTOR, {"sampling": "adaptive", "interactive": True}),
    *(
        (paper, option)
        for paper in (PAPER, WMA)
        for option in (
            {"mixing": 0.1}, {"interactive": True}, {"temperature": 0.5}, {"query": "loss"},
            {"bits": 2}, {"range": "exact"}, {"subset_size": 2}, {"noise": "laplace"},
            {"sampling": "adaptive", "interactive": True}, {"track_information": True},
            {"max_message_bits": 64},
        )
    ),
    (PAPER, {"delta": 1e-6}),
]  # fmt: skip


@pytest.mark.parametrize(("learner", "option"), UNUSED)
def test_unused_arguments_are_refused(learner, option):
    hypotheses = Hypotheses(MATRIX)
    DistributionLearner(hypotheses, epsilon=1.0, **learner)
    with pytest.raises(
        ValueError, match=r"not used|takes no|is pure|for learner|needs|not know|ask"
    ):
        DistributionLearner(hypotheses, epsilon=1.0, **{**learner, **option})


@pytest.mark.parametrize(
    "given",
    [
        {"query": "loss", "range": "worst_case", "channel": "bit"},
        {"interactive": True},
        {"interactive": True, "query": "scheffe"},  # chooses between bits and subsets
        {"subset_size": 2, "bits": 2, "max_message_bits": 64},
        {"channel": "subset", "subset_size": 2},
        {**HEDGE, "eta": 0.1, "range": "worst_case", "mixing": 0.1},
        {**HEDGE, "query": "loss", "interactive": True, "sampling": "adaptive"},
        {**HEDGE, "delta": 0.0, "temperature": 0.75, "bits": 1},
        {**HEDGE, "channel": "subset", "subset_size": 2},
        {**VECTOR, "delta": 1e-6, "noise": "gaussian", "eta": 0.1},
        {**PAPER, "eta": "printed", "sensitivity": "worst_case"},
        WMA,
    ],
)
def test_used_arguments_are_taken(given):
    DistributionLearner(Hypotheses(MATRIX), epsilon=1.0, **given)


@pytest.mark.parametrize("learner", [POSTERIOR, HEDGE, PAPER, {**HEDGE, "noise": "laplace"}])
def test_pure_channels_promise_no_delta(learner):
    server = DistributionLearner(Hypotheses(MATRIX), epsilon=1.0, **learner)
    assert (server.guarantee.epsilon, server.guarantee.delta) == (1.0, 0.0)
    assert server.guarantee_for(7).delta == 0.0
