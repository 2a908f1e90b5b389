"""Attacks on the library's own privacy claims."""

from __future__ import annotations

from dpoco.audit._events import learn_event
from dpoco.audit._exercises import Exercise
from dpoco.audit.anytime import AnytimeAudit, AnytimeReport
from dpoco.audit.black_box import BlackBoxReport, black_box_audit, epsilon_lower_bound, learner_runs
from dpoco.audit.contract import check_learner, contract_checks
from dpoco.audit.learner import audit_learner
from dpoco.audit.likelihood import LikelihoodReport, likelihood_audit
from dpoco.audit.one_run import (
    NoPowerError,
    OneRunAudit,
    OneRunPower,
    OneRunReport,
    false_refutation,
    standard_one_run,
)
from dpoco.audit.replay import ReplayReport, replay_audit
from dpoco.audit.report import Attack, AuditReport, ExerciseReport
from dpoco.audit.standard import StandardCase, standard_case, standard_names

__all__ = ["AnytimeAudit", "AnytimeReport", "Attack", "AuditReport", "BlackBoxReport", "Exercise",
           "ExerciseReport", "LikelihoodReport", "NoPowerError", "OneRunAudit", "OneRunPower",
           "OneRunReport", "ReplayReport", "StandardCase", "audit_learner",
           "black_box_audit", "check_learner", "contract_checks", "epsilon_lower_bound",
           "false_refutation", "learn_event", "learner_runs", "likelihood_audit",
           "replay_audit", "standard_case", "standard_names", "standard_one_run"]  # fmt: skip
