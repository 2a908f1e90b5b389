"""A neural network on the sensors of a space shuttle, trained in one pass and privately.

Usage: python examples/deep_stream.py [--rounds N] [--quick]

A batch of records is scored before its labels are known, then learned from by one step of SGD on a
noisy gradient. Printed is the mean log loss of all scores, with that of a private linear learner
and of the same network without noise. All released networks together are private for one record
that is emptied. The settings were chosen on an artificial stream. Needs
``pip install "dpoco[data,torch]"``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch

import dpoco
from dpoco.adapters.torch import PrivateTraining
from dpoco.evaluation import prequential

DELTA, CLIP = 1e-6, 2.0
SETTINGS = {8.0: (16, 0.1), 2.0: (64, 0.2)}  # batch and learning rate by epsilon


def log_loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs.squeeze(1), labels)


def network_loss(
    stream: dpoco.datasets.Stream, epsilon: float | None, size: int, rate: float
) -> float:
    """Return the mean loss of scores that were given before the labels."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    model = torch.nn.Sequential(*layers)
    training = PrivateTraining(
        model,
        log_loss,
        budget=None if epsilon is None else dpoco.Budget(epsilon, DELTA),
        clip=CLIP,
        steps=-(-len(stream) // size),
        batch_size=size,
    )
    training.attach(torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9))
    records = torch.tensor(np.array(stream.features)).float()
    labels = torch.tensor(np.array(stream.labels)).float()
    total = 0.0
    for start in range(0, len(stream), size):
        batch = records[start : start + size], labels[start : start + size]
        with torch.no_grad():
            total += len(batch[0]) * float(log_loss(model(batch[0]), batch[1]))
        training.step(batch)
    return total / len(stream)


def linear_loss(stream: dpoco.datasets.Stream, epsilon: float) -> float:
    """Return the mean loss of the private linear learner."""
    learner = dpoco.oco.NoisyNewton(
        dpoco.domains.LpBall(stream.dimension, p=2.0, radius=20.0),
        dpoco.losses.LogisticLoss(feature_bound=float(np.sqrt(stream.dimension))),
        horizon=len(stream),
        budget=dpoco.Budget(epsilon, DELTA),
        relation="zero_out",
    )
    return float(prequential(learner, stream).overall["loss"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=49_097)
    parser.add_argument("--quick", action="store_true", help="4000 rounds")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    torch.set_num_threads(1)
    stream = dpoco.datasets.load("shuttle").take(4000 if options.quick else options.rounds)
    share = float(stream.labels.mean())
    print(f"never a doubt: {-share * np.log(share) - (1 - share) * np.log(1 - share):.4f}")
    print(f"the network without noise: {network_loss(stream, None, *SETTINGS[8.0]):.4f}")
    for epsilon, chosen in SETTINGS.items():
        print(f"the network, epsilon = {epsilon:g}: {network_loss(stream, epsilon, *chosen):.4f}")
        print(f"NoisyNewton, epsilon = {epsilon:g}: {linear_loss(stream, epsilon):.4f}")


if __name__ == "__main__":
    main()
