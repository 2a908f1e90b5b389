"""Digits: a network of 4,810 parameters here and in Opacus, at equal epsilon and delta.

    python bench/deep_digits.py --tune    # prints the best settings, of splits that are not tested
    python bench/deep_digits.py           # tests SETTINGS and writes docs/comparison.md

Every program trains on 1,437 of scikit-learn's digits and is tested on the other 360, on ten
random splits. Settings were chosen on other splits, by the same search for every program, with
NumPy's noise. Seconds are of CPU for one training, the mean of ten in one process; memory is its
peak above what it had before the first. Needs the extra `torch`, Opacus 1.6 and JAX-Privacy 2.0; it
runs on Linux.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pages import replace_table
from sklearn.datasets import load_digits

import dpoco
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.adapters.gradients import NoisyGradients, choose_factorisation, view_error
from dpoco.adapters.torch import PrivateLoader, PrivateTraining
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"
DELTA, MOMENTUM, TRAIN, TESTS, TUNES = 1e-5, 0.9, 1437, 10, 4
EPSILONS = (8.0, 2.0)
SAME = (30, 10)  # epochs and steps of the comparison at equal steps


@dataclass(frozen=True)
class Setting:
    """Epochs, steps of one, clip, and first and last learning rate."""

    epochs: int
    steps: int
    clip: float
    rate: float
    last: float

    @property
    def batch(self) -> int:
        return -(-TRAIN // self.steps)

    def rates(self) -> np.ndarray:
        n = self.epochs * self.steps
        return self.rate * np.linspace(1.0, self.last, n)


# Chosen by --tune: (program, epsilon).
SETTINGS = {
    ("dpoco", 8.0): Setting(30, 10, 0.5, 0.8, 0.1),
    ("poisson", 8.0): Setting(30, 10, 1.0, 0.4, 0.1),
    ("same", 8.0): Setting(30, 10, 0.5, 0.2, 1.0),
    ("dpoco", 2.0): Setting(30, 10, 1.0, 0.1, 0.1),
    ("poisson", 2.0): Setting(60, 10, 0.5, 0.2, 0.1),
    ("same", 2.0): Setting(30, 10, 0.5, 0.2, 0.1),
}
PROGRAMS = {
    "dpoco": "dpoco, fixed order",
    "poisson": "Opacus, Poisson sampling",
    "same": f"Opacus, fixed order, {SAME[0]} epochs of {SAME[1]} steps",
}


def split(seed: int) -> tuple[np.ndarray, ...]:
    """Return inputs and labels to train on, and to test on."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    x, y = (pixels / 16)[order].astype(np.float32), labels[order]
    return x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:]


def network(seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))


@lru_cache
def multiplier(program: str, epsilon: float, epochs: int, steps: int) -> float:
    """Return the scale of the noise of DP-SGD, in clips."""
    if program == "poisson":
        from opacus.accountants.utils import get_noise_multiplier

        return float(get_noise_multiplier(
            target_epsilon=epsilon, target_delta=DELTA, sample_rate=1 / steps, epochs=epochs,
            accountant="prv",
        ))  # fmt: skip
    return math.sqrt(epochs) / gaussian_mu(epsilon, DELTA)


# -- the programs ---------------------------------------------------------------------------------


def accuracy(model: Any, x: np.ndarray, y: np.ndarray) -> float:
    with torch.no_grad():
        found = model(torch.as_tensor(x)).argmax(1).numpy()
    return 100.0 * float((found == y).mean())


def train_here(seed: int, epsilon: float, setting: Setting) -> float:
    x, y, *test = split(seed)
    model = network(seed)
    data = torch.utils.data.TensorDataset(torch.as_tensor(x), torch.as_tensor(y))
    loader = PrivateLoader(data, setting.batch, setting.epochs, seed=seed)
    training = PrivateTraining(
        model, torch.nn.functional.cross_entropy, clip=setting.clip, steps=loader.steps,
        epochs=loader.epochs, batch_size=loader.batch_size,
        budget=dpoco.Budget(epsilon, DELTA),
        source=Source.seeded(seed),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=setting.rate, momentum=MOMENTUM)
    training.attach(optimizer)
    for batch, rate in zip(loader, setting.rates(), strict=True):
        optimizer.param_groups[0]["lr"] = rate
        training.step(batch)
    return accuracy(model, *test)


def train_there(seed: int, epsilon: float, setting: Setting, program: str) -> float:
    from opacus import PrivacyEngine

    x, y, *test = split(seed)
    model = network(seed)
    data = torch.utils.data.TensorDataset(torch.as_tensor(x), torch.as_tensor(y))
    order = np.random.default_rng(seed).permutation(TRAIN)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.Subset(data, order.tolist()), batch_size=setting.batch
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=setting.rate, momentum=MOMENTUM)
    private, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=setting.clip,
        noise_multiplier=multiplier(program, epsilon, setting.epochs, setting.steps),
        poisson_sampling=program == "poisson",
    )  # fmt: skip
    rates = iter(setting.rates())
    for _ in range(setting.epochs):
        for inputs, labels in loader:
            optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(private(inputs), labels).backward()
            optimizer.step()
    return accuracy(private, *test)


def train(program: str, seed: int, epsilon: float, setting: Setting) -> float:
    if program == "dpoco":
        return train_here(seed, epsilon, setting)
    return train_there(seed, epsilon, setting, program)


# -- the search for settings ----------------------------------------------------------------------


def simulate(program: str, seed: int, epsilon: float, setting: Setting) -> float:
    """Return the accuracy of one training in NumPy; doubles in place of single precision."""
    x, y, *test = split(seed)
    rng = np.random.default_rng(seed)
    weights = [p.detach().numpy().astype(float) for p in network(seed).parameters()]
    sizes = [w.size for w in weights]
    noisy: NoisyGradients | None = None
    if program == "dpoco":
        noisy = NoisyGradients(
            sum(sizes), clip=setting.clip, batch_size=setting.batch, steps=setting.steps,
            epochs=setting.epochs, budget=dpoco.Budget(epsilon, DELTA),
        )  # fmt: skip
    scale = (
        0.0 if noisy else setting.clip * multiplier(program, epsilon, setting.epochs, setting.steps)
    )
    speed = np.zeros(sum(sizes))
    order = rng.permutation(TRAIN)
    for step, rate in enumerate(setting.rates()):
        chosen = order[step % setting.steps :: setting.steps]
        if program == "poisson":
            chosen = np.flatnonzero(rng.random(TRAIN) < 1 / setting.steps)
        total = clipped_sum(weights, x[chosen], y[chosen], setting.clip)
        noise = scale * rng.standard_normal(len(total))
        total = noisy.release(total) if noisy else total + noise
        speed = MOMENTUM * speed + total / (TRAIN / setting.steps)
        moves = np.split(rate * speed, np.cumsum(sizes)[:-1])
        weights = [w - m.reshape(w.shape) for w, m in zip(weights, moves, strict=True)]
    w, b, v, c = weights
    found = (np.tanh(test[0] @ w.T + b) @ v.T + c).argmax(axis=1)
    return 100.0 * float((found == test[1]).mean())


def clipped_sum(weights: list[np.ndarray], x: np.ndarray, y: np.ndarray, clip: float) -> np.ndarray:
    """Return the sum of the examples' clipped gradients of the cross entropy, in NumPy."""
    w, b, v, c = weights
    hidden = np.tanh(x @ w.T + b)
    scores = hidden @ v.T + c
    slope = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(len(y)), y] -= 1.0
    back = (slope @ v) * (1.0 - hidden**2)
    square = (slope**2).sum(1) * (1.0 + (hidden**2).sum(1))
    square += (back**2).sum(1) * (1.0 + (x**2).sum(1))
    factor = np.minimum(1.0, clip / np.sqrt(square))[:, None]
    slope, back = slope * factor, back * factor
    parts = back.T @ x, back.sum(0), slope.T @ hidden, slope.sum(0)
    return np.concatenate([part.ravel() for part in parts])


def grid(program: str) -> list[Setting]:
    """Return the settings that are compared."""
    shapes = [SAME] if program == "same" else [SAME, (60, 10)]
    return [
        Setting(epochs, steps, clip, rate / clip, last)
        for (epochs, steps), clip, rate, last in itertools.product(
            shapes, (0.5, 1.0), (0.1, 0.2, 0.4), (1.0, 0.1)
        )
    ]


def tune(program: str, epsilon: float) -> Setting:
    """Return the best of the four that are best on one split, by four splits; none is tested."""
    first, *others = range(100, 100 + TUNES)
    found = {each: [simulate(program, first, epsilon, each)] for each in grid(program)}
    few = sorted(found, key=lambda each: -found[each][0])[:4]
    for each in few:
        found[each] += [simulate(program, seed, epsilon, each) for seed in others]
    best = max(few, key=lambda each: statistics.fmean(found[each]))
    print(
        f"    ({program!r}, {epsilon}): {best},  # {statistics.fmean(found[best]):.2f}", flush=True
    )
    return best


# -- the tables -----------------------------------------------------------------------------------


def run(program: str, epsilon: float) -> dict[str, Any]:
    """Return mean accuracy and standard error, seconds of CPU of one training, and megabytes."""
    setting = SETTINGS[program, epsilon]
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    start = time.process_time()
    found = [train(program, seed, epsilon, setting) for seed in range(TESTS)]
    seconds = (time.process_time() - start) / TESTS
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = statistics.stdev(found) / math.sqrt(TESTS)
    return {
        "accuracy": statistics.fmean(found), "error": error, "seconds": seconds,
        "memory": (peak - before) / 1e6,
    }  # fmt: skip


def run_apart(*words: str) -> Any:
    """Return what a program prints as JSON."""
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def accuracy_table() -> str:
    names = ["program", *(f"epsilon = {e:g}, %" for e in EPSILONS), "epochs x steps",
             "seconds", "memory, MB"]  # fmt: skip
    lines = [f"| {' | '.join(names)} |", "|---|--:|--:|--:|--:|--:|"]
    for program, name in PROGRAMS.items():
        found = [run_apart(__file__, "--run", program, str(e)) for e in EPSILONS]
        cells = [f"{each['accuracy']:.1f} ± {each['error']:.1f}" for each in found]
        used = [SETTINGS[program, e] for e in EPSILONS]
        shapes = " / ".join(dict.fromkeys(f"{each.epochs} x {each.steps}" for each in used))
        most = max(each["memory"] for each in found)
        seconds = statistics.fmean(each["seconds"] for each in found)
        lines.append(f"| {name} | {' | '.join(cells)} | {shapes} | {seconds:.1f} | {most:.0f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def noise_table() -> str:
    """Return the noise of sums at equal sensitivity, here and in JAX-Privacy."""
    (times, apart), n = SAME, math.prod(SAME)
    near = Neighbours("zero_out", rounds=times, separation=apart)
    theirs = str(Path(__file__).parent / "field" / "theirs.py")
    banded = run_apart(theirs, "banded", str(n), str(times), str(apart))
    blt = run_apart(theirs, "blt", str(n), str(times), "mean")
    lines = ["| noise of sums | root mean square |", "|---|--:|"]
    for name, dimension in (("dpoco, a band", 1), ("dpoco, buffers (large models)", 10**8)):
        factor = choose_factorisation(n, near, math.inf, dimension)
        lines.append(f"| {name} | {view_error(factor, n, near, math.inf):.2f} |")
    lines.append(f"| JAX-Privacy, banded | {banded['rms']:.2f} |")
    lines.append(f"| JAX-Privacy, BLT for the mean error | {blt['rms']:.2f} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", action="store_true", help="search for settings and print them")
    parser.add_argument("--run", nargs=2, metavar=("PROGRAM", "EPSILON"), help="print one row")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.tune:
        for epsilon, program in itertools.product(EPSILONS, PROGRAMS):
            tune(program, epsilon)
    elif options.run:
        print(json.dumps(run(options.run[0], float(options.run[1]))))
    else:
        for key, table in (("deep digits", accuracy_table), ("deep field", noise_table)):
            text = table()
            print(text)
            PAGE.write_text(replace_table(PAGE.read_text("utf-8"), key, text), "utf-8")


if __name__ == "__main__":
    main()
