"""Worlds that learners are played against: oblivious and adaptive sequences of losses.

They see decisions and nothing else, and keep random numbers of their own.
"""

from __future__ import annotations

__all__: list[str] = []
