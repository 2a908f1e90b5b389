"""Speeds of the next hour on a ring road, published hourly from trips that stay private.

Usage: python examples/traffic_forecast.py [--weeks W] [--output FILE] [--quick]

Simulated drivers report the speed of their trips. Once an hour the city publishes a linear model of
speed in the time of the day and of the week; its forecast for the next hour is public as well. The
person is protected, not the trip: of each driver at most 20 trips are used, at least 500 trips
apart. Releases are in a journal: in the middle of the first run the program dies after an hour was
stored and before it was published, and the hour is sent again. Needs ``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import matplotlib
import numpy as np

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.plotting import STYLE, new_figure

TRIPS, DRIVERS, FASTEST = 150, 5000, 130.0  # trips an hour; people; km/h, public
RULE = dpoco.Participation(20, 500)
BUDGETS = {"epsilon = 0.5": 0.5, "epsilon = 2": 2.0, "without privacy": None}


def find_shape(hours):
    """Public features of hours: waves of the day, for working days and for weekends, norm <= 1."""
    day = 2.0 * np.pi * (hours % 24) / 24.0
    waves = [np.ones(len(hours)), *(f(k * day) for k in (1, 2, 3) for f in (np.cos, np.sin))]
    weekend = hours // 24 % 7 >= 5
    return np.column_stack([np.where(weekend, 0.0, waves).T, np.where(weekend, waves, 0.0).T]) / 2.0


def trips(weeks, seed):
    """Return hours, drivers, and speeds mapped to [-1, 1]; jams at eight and at five."""
    rng = np.random.default_rng(seed)
    hours = np.repeat(np.arange(weeks * 168), TRIPS)
    rush = sum(np.exp(-(((hours % 24) - peak) ** 2) / 4.0) for peak in (8, 17))
    speed = 95.0 - 50.0 * rush * (hours // 24 % 7 < 5) + 12.0 * rng.normal(size=len(hours))
    drivers = rng.integers(DRIVERS, size=len(hours))
    return hours, drivers, np.clip(2.0 * speed / FASTEST - 1.0, -1.0, 1.0)


def model(epsilon, horizon, source=None):
    return dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(14, p=2.0, radius=3.0),
        dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
        horizon=horizon,
        budget=None if epsilon is None else dpoco.Budget(epsilon, 1e-6),
        statistics="quadratic",
        participation=RULE,
        source=source,
    )


def publish(stream, features, speeds, drivers, crash):
    """Return the forecast of each hour, made before it, in km/h; `crash` names an hour."""
    forecasts = []
    for hour in range(len(speeds) // TRIPS):
        part = slice(hour * TRIPS, (hour + 1) * TRIPS)
        forecasts.append(float(features[part.start] @ stream.decide()))
        records, names = (features[part], speeds[part]), drivers[part].tolist()
        sent = stream.process(*records, first_round=part.start, person=names)
        if hour == crash:  # the answer is lost, and the hour comes again: no second release
            again = stream.process(*records, first_round=part.start, person=names)
            assert np.array_equal(sent, again)
    return (np.array(forecasts) + 1.0) / 2.0 * FASTEST


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weeks", type=int, default=8)
    parser.add_argument("--output", default="traffic_forecast.png")
    parser.add_argument("--quick", action="store_true", help="two weeks")
    options = parser.parse_args(arguments)
    weeks = 2 if options.quick else options.weeks
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    hours, drivers, speeds = trips(weeks, seed=0)
    features = find_shape(hours)
    truth = (speeds.reshape(-1, TRIPS).mean(axis=1) + 1.0) / 2.0 * FASTEST
    figure = new_figure((8.4, 7.0))
    left, right = figure.subplots(2, 1)
    last = slice(-168, None)
    left.plot(truth[last], color="k", linestyle=":", linewidth=1.0, zorder=4, label="speed")
    print(
        f"{'error of the forecast, km/h':28}"
        + "".join(f"{f'week {w + 1}':>9}" for w in range(weeks))
    )
    for name, epsilon in BUDGETS.items():
        with tempfile.TemporaryDirectory() as folder:
            budget = None if epsilon is None else Ledger(dpoco.Budget(epsilon, 1e-6))
            with dpoco.journal.Journal(Path(folder) / "city.db", ledger=budget) as journal:
                source = (
                    dpoco.evaluation.SeedTree(0).child(name).source()
                )  # as the figure was drawn
                made = model(epsilon, len(speeds), source)
                stream = journal.open("ring road", lambda made=made: made)
                shown = publish(stream, features, speeds, drivers, crash=len(truth) // 2)
        errors = np.abs(shown - truth).reshape(weeks, 168).mean(axis=1)
        print(f"{name:28}" + "".join(f"{error:9.2f}" for error in errors))
        left.plot(shown[last], label=name)
        right.plot(range(1, weeks + 1), errors, marker="o", label=name)
    left.set(xlabel="hour of the last week", ylabel="km/h", title="forecast for the next hour")
    right.set(xlabel="week", ylabel="mean error, km/h", yscale="log", title="error")
    for label in (right.yaxis.set_major_formatter, right.yaxis.set_minor_formatter):
        label("{x:g}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    print(f"{model(BUDGETS['epsilon = 2'], len(speeds)).guarantee}\nwrote {options.output}")
    figure.savefig(options.output)


if __name__ == "__main__":
    main()
