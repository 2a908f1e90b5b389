"""Attacks on our own claims."""

from __future__ import annotations

from dpoco.audit.replay import ReplayReport, replay_audit

__all__ = ["ReplayReport", "replay_audit"]
