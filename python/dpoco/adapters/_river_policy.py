"""What the bandit policies in river's dialect share.

river's own policies keep the mean reward of every arm and print it. These keep nothing of the kind:
their representation shows arguments and the guarantee, their ranking what was published.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from river.base import Base

from dpoco.accounting import Guarantee
from dpoco.adapters._rounds import Rounds

__all__ = ["PrivatePolicy"]


class PrivatePolicy:
    """What the policies share: a public list of arms, and rounds in their order."""

    arms: Sequence[Hashable]
    _rounds: Rounds
    _n: int

    def _begin(self, arguments: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in arguments.items() if k not in ("self", "__class__")})
        self._index = {arm: index for index, arm in enumerate(self.arms)}
        if len(self._index) != len(self.arms) or len(self._index) < 2:
            raise ValueError("arms must be at least two, all different")

    @property
    def learner_(self) -> Any:
        """The learner underneath: its `save` keeps the state, which is as secret as the data."""
        return self._rounds.learner

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; of contextual policies, jointly: an arm is for its own user's eyes."""
        return self._rounds.guarantee

    def bind(self, learner: Any) -> None:
        """Go on with a learner that `dpoco.load` has brought back; nobody else may."""
        self._rounds.bind(learner)

    def _check_arms(self, arm_ids: Any) -> None:
        if set(arm_ids) != set(self._index):
            raise ValueError("the learner chooses among all its arms: arm_ids must name them all")

    def _arm(self, arm_id: Any) -> int:
        if arm_id not in self._index:
            raise ValueError("arm_id is none of this policy's arms")
        return self._index[arm_id]

    def __repr__(self) -> str:
        # Never what was learned: river's own table shows mean rewards.
        arguments: str = Base.__repr__(self)
        return f"{arguments}\n  {self.guarantee!r}"
