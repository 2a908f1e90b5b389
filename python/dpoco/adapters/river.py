"""Private learners as river estimators and bandit policies (extra ``adapters``).

Estimators learn from one record at a time, ``learn_one(x, y)`` is one round; ``predict_one(x)``
plays none, draws nothing, and works before the first record and past the horizon. What leaks
around them, scalers that learn first of all: ``docs/adapters.md``.
"""

from __future__ import annotations

try:
    import river  # noqa: F401
except ImportError:
    raise ImportError(
        'dpoco.adapters.river needs river: pip install "dpoco[adapters]"', name="river"
    ) from None

from dpoco.adapters._river_bandits import PrivateBandit, PrivateContextualBandit, PrivateExperts
from dpoco.adapters._river_linear import PrivateClassifier, PrivateRegressor

__all__ = [
    "PrivateBandit",
    "PrivateClassifier",
    "PrivateContextualBandit",
    "PrivateExperts",
    "PrivateRegressor",
]
