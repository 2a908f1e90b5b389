"""Which of eight models is right about data that never leave their devices?

Usage: python examples/local_model_selection.py [--output FILE] [--quick]
A server ships naive Bayes models, trained on the first records of a public stream. Every later
record (x, y) is on its own device, which sends one report. "Context public": the server knows
x; "context private": it learns neither. Losses, -log of the probability of what happened, are means
of three runs. Needs ``pip install "dpoco[data,plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.environments import simulate_local
from dpoco.local import DistributionLearner, Hypotheses
from dpoco.plotting import STYLE, new_figure
from dpoco.published.sima_local import PublishedDistributionLearner

PRIVATE = {"learner": "hedge", "protect": "label_and_context"}
LEARNERS = {
    "context public, epsilon = 4": ("C0-", {"epsilon": 4.0}),
    "context public, epsilon = 1": ("C0--", {"epsilon": 1.0}),
    "context private, epsilon = 4": ("C1-", {"epsilon": 4.0, **PRIVATE}),
    "context private, epsilon = 1": ("C1--", {"epsilon": 1.0, **PRIVATE}),
    "published, epsilon = 4": ("C3-.", {"epsilon": 4.0}),
}
GROUPS = {
    "photographs": {"place": [0, 1], "lines": [2, 3], "edges": [4, 5, 6, 7], "hue": [16, 17]}
    | {"colours": [9, 10, 11], "excess": [12, 13, 14], "light": [8, 15], "all": [*range(18)]},
    "shuttle": {f"sensor {i + 1}": [i] for i in (0, 1, 2, 4, 6, 7, 8)}
    | {"five sensors": [0, 2, 6, 7, 8]},
}


def photographs() -> tuple[np.ndarray, np.ndarray]:
    from river.datasets import ImageSegments

    records, names = zip(*ImageSegments(), strict=True)
    return np.array([[*record.values()] for record in records]), np.unique(names, False, True)[1]


def shuttle() -> tuple[np.ndarray, np.ndarray]:
    stream = dpoco.datasets.load_shuttle(scaled=False)
    return stream.features, stream.labels.astype(np.int64)


def naive_bayes(x: np.ndarray, y: np.ndarray, trained: int) -> np.ndarray:
    """Probabilities of the labels for all records, from Gaussians fitted to the first ones."""
    scores = []
    for label in range(y.max() + 1):
        own = x[:trained][y[:trained] == label]
        spread = own.var(axis=0) + 0.05 * x[:trained].var(axis=0) + 1e-6
        fit = -0.5 * ((x - own.mean(axis=0)) ** 2 / spread + np.log(spread)).sum(axis=1)
        scores.append(fit / np.sqrt(x.shape[1]) + np.log(len(own) / trained))  # not independent
    powers = np.exp(np.array(scores) - np.max(scores, axis=0)).T
    return 0.95 * powers / powers.sum(axis=1, keepdims=True) + 0.05 / len(scores)


def play_published(table: np.ndarray, labels: np.ndarray, seed: int, **build: float) -> list[float]:
    """Losses of the published learner: every round has its own context."""
    learner = PublishedDistributionLearner(Hypotheses(table), public_seed=seed, **build)
    source, losses = dpoco.random.Source.seeded(seed), []
    for x, label in enumerate(labels):
        losses.append(-np.log(learner.predict(x)[label]))
        learner.observe(label, source, x)
    return losses


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="local_model_selection.png")
    parser.add_argument("--quick", action="store_true", help="600 rounds, one run")
    options = parser.parse_args(arguments)
    repeats, limit = (1, 600) if options.quick else (3, 10_000)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # of bounds, not of results
    figure, loads = new_figure((8.4, 5.2)), (photographs, shuttle)
    for panel, load in zip(figure.subplots(1, 2), loads, strict=True):
        (features, labels), groups = load(), GROUPS[load.__name__]
        trained = 310 if load is photographs else 2000
        models = [naive_bayes(features[:, group], labels, trained) for group in groups.values()]
        table, labels = np.stack(models, axis=1)[trained:][:limit], labels[trained:][:limit]
        rounds = np.arange(len(labels))
        each = -np.log(table[rounds, :, labels])  # loss of every model in every round
        best = int(each.sum(axis=0).argmin())
        likely = np.logaddexp.reduce(-each.cumsum(axis=0), axis=1) - np.log(len(groups))
        ignored = -np.log(np.exp(-each).mean(axis=1)).cumsum()
        curves = {"no privacy (Bayes)": ("k-", -likely), "all ignored": ("k:", ignored)}
        for name, (look, build) in LEARNERS.items():
            build, runs = {"horizon": len(rounds), **build}, []
            for seed in range(repeats):
                if name.startswith("published"):
                    runs.append(play_published(table, labels, seed, **build))
                    continue
                server = DistributionLearner(Hypotheses(table), public_seed=seed, **build)
                noise, truth = dpoco.random.Source.seeded(seed), np.eye(table.shape[2])[labels]
                runs.append(simulate_local(server, labels, rounds, truth=truth, source=noise).kl)
            curves[name] = (look, np.mean(runs, axis=0).cumsum())
        print(f"\n{load.__name__}, {len(rounds)} devices; best model: {list(groups)[best]}")
        for name, (look, losses) in curves.items():
            excess = losses - np.cumsum(each[:, best])
            print(f"{name:34} {excess[-1]:8.0f}")
            panel.plot(rounds + 1, excess, look, lw=5.0 if look == "k-" else 1.5, label=name)
        panel.set(xlabel="devices", ylabel="loss above best model's, nats", title=load.__name__)
    print(DistributionLearner(Hypotheses(table), epsilon=4.0, horizon=10_000).guarantee)
    lines, names = panel.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=2)
    figure.savefig(options.output)


if __name__ == "__main__":
    main()
