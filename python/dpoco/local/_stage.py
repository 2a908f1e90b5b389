"""One simulation: the arrays it reads and writes, and how a slice of rounds is played."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._divergences import kl_divergence, total_variation
from dpoco._validation import positive_int, real_float
from dpoco.local._answers import prepared
from dpoco.local._channel import contraction, signal
from dpoco.local._hedge import Hedge
from dpoco.local._learner import DistributionLearner
from dpoco.local._losses import loss_diameter
from dpoco.local._posterior import Posterior
from dpoco.local._randomizers import SubsetRandomizer
from dpoco.local._reports import Report
from dpoco.local._trace import LocalTrace
from dpoco.random import Source

__all__ = ["Stage"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Stage:
    """One simulation: the arrays it reads and writes."""

    def __init__(
        self,
        learner: DistributionLearner,
        labels: IntArray,
        contexts: Any,
        truth: Any,
        checkpoints: Sequence[int],
        beta: float,
    ) -> None:
        if not isinstance(learner, DistributionLearner):
            raise TypeError(f"learner must be a DistributionLearner; got {type(learner).__name__}")
        self.learner, self.labels = learner, labels
        rounds = labels.size
        hypotheses = learner.hypotheses
        if contexts is not None and len(contexts) != rounds:
            raise ValueError("there must be one context a round")
        self.contexts = self._contexts(contexts)
        if not 0.0 < real_float("beta", beta) < 1.0:
            raise ValueError(f"beta must be in (0, 1); got {beta!r}")
        self.beta = float(beta)
        self.named = -1
        self.truth = self._truth(truth)
        measured = truth is not None
        self.kl = np.zeros(rounds) if measured else None
        self.tv = np.zeros(rounds) if measured else None
        marks = sorted({positive_int("checkpoints", mark) for mark in checkpoints})
        first = learner.round + 1
        if marks and not first <= marks[0] <= marks[-1] < first + rounds:
            raise ValueError("checkpoints must be numbers of the rounds played")
        self.marks = np.array(marks, dtype=np.int64)
        self.weights = np.zeros((len(marks), hypotheses.count))
        self.misses = self.first_miss = self.subsets = 0

    def _contexts(self, contexts: Any) -> Any:
        hypotheses = self.learner.hypotheses
        if hypotheses.kind == "array":
            if contexts is not None:
                raise ValueError("these hypotheses have no context")
            return None
        if contexts is None:
            raise ValueError("contexts must be given: the hypotheses depend on them")
        if hypotheses.kind != "table":
            return contexts
        array = np.asarray(contexts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError("contexts must be ints for a table of hypotheses")
        limit = hypotheses.contexts or 0
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < limit:
            raise ValueError(f"contexts must be in [0, {limit})")
        return np.ascontiguousarray(array, dtype=np.int64)

    def _truth(self, truth: Any) -> FloatArray | None:
        """Return distributions of shape (C, M), or None; callables are asked every round."""
        hypotheses = self.learner.hypotheses
        if truth is None:
            return None
        if isinstance(truth, (int, np.integer)) and not isinstance(truth, bool):
            if not 0 <= truth < hypotheses.count:
                raise ValueError(f"truth must be in [0, {hypotheses.count})")
            self.named = int(truth)
            table = hypotheses.array
            if table is None:
                if hypotheses.labels is None:
                    raise ValueError("likelihoods of labels have no KL-risk")
                return None
            rows = table[None, truth] if table.ndim == 2 else table[:, truth]
            return np.ascontiguousarray(rows)
        contexts = hypotheses.contexts
        if contexts is None:
            raise TypeError("truth must be the index of a hypothesis for callables")
        rows = np.array(truth, dtype=np.float64)
        rows = rows[None, :] if rows.ndim == 1 and contexts == 1 else rows
        if rows.shape != (contexts, hypotheses.labels):
            raise ValueError(f"truth must have shape ({contexts}, {hypotheses.labels})")
        return rows

    # -- in compiled code -------------------------------------------------------------------------

    def compiled(self, noise: Source) -> Any:
        """Return what plays a slice of rounds in compiled code, or None if that cannot."""
        learner = self.learner
        table, rule = learner.hypotheses.array, learner._rule
        if table is None:
            return None
        if isinstance(rule, Posterior):
            settings = self._posterior_settings(rule)
            function: Any = _core.local_simulate_posterior
        elif isinstance(rule, Hedge):
            settings = self._hedge_settings(rule)
            function = _core.local_simulate_hedge
        else:
            return None
        if settings is None:
            return None
        tables = table[None] if table.ndim == 2 else table
        empty = np.empty(0, dtype=np.int64)
        truth = np.empty((0, 0)) if self.truth is None else self.truth

        def play(part: slice) -> None:
            first = learner.round + 1
            count = part.stop - part.start
            inside = (self.marks >= first) & (self.marks < first + count)
            weights = np.zeros((int(inside.sum()), learner.hypotheses.count))
            kl = np.empty(0) if self.kl is None else self.kl[part]
            tv = np.empty(0) if self.tv is None else self.tv[part]
            contexts = empty if self.contexts is None else self.contexts[part]
            chunk = {**settings, "first": first, "checkpoints": self.marks[inside].tolist()}
            found = function(
                rule._engine, noise._engine, tables, contexts, self.labels[part], truth, chunk,
                kl, tv, weights,
            )  # fmt: skip
            self.weights[inside] = weights
            self._count(found)
            if isinstance(rule, Hedge):
                rule._charge(first, count)
            self._advance(count)

        return play

    def _common(self) -> dict[str, Any]:
        settings = self.learner._settings
        return {
            "seed": settings.public_seed,
            "epsilon": settings.epsilon,
            "named": self.named,
            "confidence": self.beta,
        }

    def _posterior_settings(self, rule: Posterior) -> dict[str, Any] | None:
        settings = self.learner._settings
        labels = settings.labels
        if settings.query == "loss" or rule._information is not None or labels is None:
            return None
        size = None
        channel = settings.channel if labels > 1 else "bit"
        if channel != "bit":
            size = rule.subset_size(labels)
        gain = {1: 0.0, size: 0.0}
        if size is not None:
            gain = {d: SubsetRandomizer(labels, d, settings.epsilon).gain for d in {1, size}}
        fixed = settings.mixing is not None or settings.horizon is not None
        return {
            **self._common(),
            "mixing": rule.mixing(1) if fixed else -1.0,
            "family": settings.query,
            "channel": channel,
            "interactive": settings.interactive,
            "bits": settings.bits,
            "subset_size": size or 0,
            "response_gain": gain[1],
            "subset_gain": gain[size],
            "contraction": contraction(labels, settings.epsilon),
            "signal": signal(labels, size, settings.epsilon) if size else 0.0,
        }

    def _hedge_settings(self, rule: Hedge) -> dict[str, Any] | None:
        settings = self.learner._settings
        mixing = rule._fixed_mixing
        if (
            mixing is None
            or settings.channel != "coordinate"
            or settings.options["noise"] is not None
            or settings.options["sampling"] != "uniform"
        ):
            return None
        return {
            **self._common(),
            "mixing": mixing,
            "named": -1,
            "exact_range": settings.range == "exact",
            "half_range": max(0.5 * loss_diameter(settings.hypotheses, mixing), 1e-12),
            "adaptive_rate": rule._rate == 0.0,
        }

    def _count(self, found: dict[str, int]) -> None:
        if self.misses == 0:
            self.first_miss = found["first_miss"]
        self.misses += found["misses"]
        self.subsets += found["subsets"]

    def _advance(self, count: int) -> None:
        learner = self.learner
        learner._rounds.close()
        learner._rounds.last += count
        learner._reports += count

    # -- round by round ---------------------------------------------------------------------------

    def step_by_step(self, part: slice, noise: Source) -> None:
        """Play a slice of rounds as a server and its devices would."""
        learner = self.learner
        private = learner._settings.protect != "label"
        for i in range(part.start, part.stop):
            context = None if self.contexts is None else self.contexts[i]
            label = int(self.labels[i])
            spec = learner.round_spec(None if private else context)
            self._measure(i, context)
            answer = prepared(spec, learner.hypotheses, context, label, learner._settings.protect)
            values = answer(noise)
            nonce = secrets.token_bytes(8)
            learner.update(
                spec,
                Report(spec.round, spec.digest, nonce, spec.channel, values, noise.is_seeded),
            )
            self.subsets += spec.channel == "subset"
            self.weights[self.marks == spec.round] = learner.weights
            if self.named >= 0 and isinstance(learner._rule, Posterior):
                own = learner.posterior()[self.named]
                if own < self.beta / learner.hypotheses.count:
                    self.first_miss = self.first_miss or spec.round
                    self.misses += 1

    def _measure(self, i: int, context: Any) -> None:
        if self.kl is None or self.tv is None:
            return
        learner = self.learner
        matrix = learner.hypotheses.matrix(context)
        prediction = learner._rule.predict(learner.round, matrix).all()
        if self.truth is None:
            truth = matrix[self.named]
        else:
            truth = self.truth[0 if self.contexts is None else context]
        self.kl[i] = kl_divergence(truth, prediction)
        self.tv[i] = total_variation(truth, prediction)

    def trace(self) -> LocalTrace:
        """Return what was measured."""
        for array in (self.kl, self.tv, self.weights):
            if array is not None:
                array.flags.writeable = False
        watched = self.named >= 0 and isinstance(self.learner._rule, Posterior)
        return LocalTrace(
            self.kl,
            self.tv,
            self.marks,
            self.weights,
            self.misses if watched else None,
            (self.first_miss or None) if watched else None,
            self.subsets,
        )
