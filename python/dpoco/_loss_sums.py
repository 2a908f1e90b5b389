"""The settings from which the compiled sum of a stream's losses is built."""

from __future__ import annotations

import math

from dpoco import losses
from dpoco._clipping import record_clipper
from dpoco._validation import Fields
from dpoco.domains import Domain


def loss_sum_settings(domain: Domain, loss: losses.Loss, unbounded: bool) -> Fields:
    """Return the fields of ``_core`` for sums of `loss`; `unbounded`: over all of R^d."""
    settings: Fields = {"unbounded": unbounded, "kind": "custom"}
    if isinstance(loss, losses.QuadraticLoss):
        settings.update(
            kind="quadratic",
            lipschitz=loss.lipschitz_bound,
            smoothness=loss.smoothness_bound,
            radius=math.inf if unbounded else domain.radius_from_center(),
        )
    elif isinstance(loss, losses.LinearLoss):
        clipper = record_clipper(domain, loss.gradient_bound, loss.gradient_bound_l2)
        settings.update(kind="linear", clipper=clipper)
    elif isinstance(loss, losses.MarginLoss):
        clipper = record_clipper(domain, loss.feature_bound, loss.feature_bound_l2)
        settings.update(kind="glm", clipper=clipper, glm=loss._glm_engine)
    return settings
