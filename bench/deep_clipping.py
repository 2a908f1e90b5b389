"""Clipping here and in Opacus: CPU time of the sum of a batch's clipped gradients, interleaved.

Both start with a model, a batch and a bound, and end with one tensor a parameter. Before anything
is timed all sums are compared. Needs the extra `torch`, and Opacus 1.6. It writes its table into
docs/comparison.md.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from opacus.grad_sample import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from pages import replace_table
from torch import nn

from dpoco.adapters._clipped_gradients import ClippedGradients

CLIP, PAIRS = 1.0, 7
Work = Callable[[], list[torch.Tensor]]


class Mean(nn.Module):
    """The mean over the places of a text."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=1)


def case(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    size = 64
    labels = torch.randint(0, 10, (size,))
    if name == "MLP":
        layers = [nn.Linear(784, 1000), nn.Tanh(), nn.Linear(1000, 200), nn.Tanh(),
                  nn.Linear(200, 10)]  # fmt: skip
        return nn.Sequential(*layers), torch.randn(size, 784), labels
    if name == "convolutions":
        layers = [nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1),
                  nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Flatten(),
                  nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10)]  # fmt: skip
        return nn.Sequential(*layers), torch.randn(size, 1, 28, 28), labels
    if name == "sequences":
        layers = [nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256), Mean(), nn.Linear(256, 10)]
        return nn.Sequential(*layers), torch.randn(size, 32, 256), labels
    layers = [nn.Embedding(8000, 64), nn.Linear(64, 128), nn.Tanh(), Mean(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), torch.randint(0, 8000, (size, 32)), labels


CASES = ("MLP", "convolutions", "text", "sequences")
MODES = ("hooks", "functorch", "ghost")


def ours(name: str) -> Work:
    model, x, y = case(name)
    trained = dict(model.named_parameters())
    loss = nn.functional.cross_entropy
    own = ClippedGradients(model, loss, trained, CLIP)

    def work() -> list[torch.Tensor]:
        total = torch.zeros(sum(p.numel() for p in trained.values()), dtype=torch.float64)
        own.add((x, y), len(x), 2**26, total)
        return list(total.split([p.numel() for p in trained.values()]))

    return work


def theirs(name: str, mode: str) -> Work:
    model, x, y = case(name)
    loss = nn.CrossEntropyLoss(reduction="sum")
    options: dict[str, Any] = {"noise_multiplier": 0.0, "max_grad_norm": CLIP,
                               "expected_batch_size": len(x), "loss_reduction": "sum"}  # fmt: skip
    parameters = list(model.parameters())
    sgd = torch.optim.SGD(parameters, lr=0.0)
    wrapped: Any
    if mode == "ghost":
        wrapped = GradSampleModuleFastGradientClipping(
            model, max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum"
        )
        optimizer: Any = DPOptimizerFastGradientClipping(sgd, **options)
        criterion = DPLossFastGradientClipping(wrapped, optimizer, loss, loss_reduction="sum")

        def ghost() -> list[torch.Tensor]:
            optimizer.zero_grad()
            criterion(wrapped(x), y).backward()
            optimizer.accumulate()
            return [p.summed_grad.flatten() for p in parameters]

        return ghost
    wrapped = GradSampleModule(model, loss_reduction="sum", force_functorch=mode == "functorch")
    optimizer = DPOptimizer(sgd, **options)

    def work() -> list[torch.Tensor]:
        optimizer.zero_grad()
        loss(wrapped(x), y).backward()
        optimizer.clip_and_accumulate()
        return [p.summed_grad.flatten() for p in parameters]

    return work


def milliseconds(work: Work) -> float:
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def measure(name: str) -> dict[str, list[float]]:
    """Return CPU milliseconds of every program, taken in turn."""
    works = {"dpoco": ours(name), **{mode: theirs(name, mode) for mode in MODES}}
    expected = torch.cat([part.double() for part in works["dpoco"]()])
    for mode in MODES:
        found = torch.cat([part.double() for part in works[mode]()])
        apart = float((found - expected).norm() / expected.norm())
        if not apart < 1e-4:
            raise ValueError(f"{mode} has another sum on {name}: {apart:.1e}")
    times: dict[str, list[float]] = {key: [] for key in works}
    for _ in range(PAIRS):
        for key, work in works.items():
            times[key].append(milliseconds(work))
    return times


def table() -> str:
    """Return the table of the page."""
    lines = ["| model | parameters | dpoco, ms | Opacus hooks | Opacus functorch | Opacus ghost |",
             "|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for name in CASES:
        times = measure(name)
        size = sum(p.numel() for p in case(name)[0].parameters())
        own = times["dpoco"]
        ratios = []
        for mode in MODES:
            pairs = [o / t for o, t in zip(own, times[mode], strict=True)]
            ratios.append(f"{statistics.median(times[mode]):.0f} ({statistics.median(pairs):.2f})")
        lines.append(f"| {name} | {size:,} | {statistics.median(own):.0f} | {' | '.join(ratios)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    page = Path(__file__).parents[1] / "docs" / "comparison.md"
    page.write_text(replace_table(page.read_text("utf-8"), "deep clipping", table()), "utf-8")
