"""Attacks on our own claims."""

from __future__ import annotations

from dpoco.audit.black_box import (
    BlackBoxReport,
    black_box_audit,
    epsilon_lower_bound,
    learner_runs,
)
from dpoco.audit.likelihood import LikelihoodReport, likelihood_audit
from dpoco.audit.packing import PackingReport, packing_audit
from dpoco.audit.replay import ReplayReport, replay_audit

__all__ = [
    "BlackBoxReport",
    "LikelihoodReport",
    "PackingReport",
    "ReplayReport",
    "black_box_audit",
    "epsilon_lower_bound",
    "learner_runs",
    "likelihood_audit",
    "packing_audit",
    "replay_audit",
]
