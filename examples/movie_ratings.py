"""People who rate movies: what each calibration promises all their ratings, and what it costs.

Usage: python examples/movie_ratings.py [--rounds K] [--separation B] [--epsilon E ...] [--quick]

MovieLens100K: 100,000 ratings by 943 people, each of whom has at least 20. A linear model of the
rating, in genres and in the age and sex of the rater, is released after each. Budgets are compared
as in ``people.py``; here people rate many movies in one evening, so records may follow each other.
Needs ``pip install "dpoco[data]"``, and the file, which river downloads once:
``python -c "from river.datasets import MovieLens100K as M; M().download()"``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from people import compare

import dpoco

GENRES = (
    "action", "adventure", "animation", "childrens", "comedy", "crime", "documentary", "drama",
    "fantasy", "filmnoir", "horror", "musical", "mystery", "romance", "scifi", "thriller", "war",
    "western",
)  # fmt: skip


def ratings():
    """Return features of norm 1, ratings mapped to [-1, 1], and whose they are."""
    from river.datasets import MovieLens100K

    data = MovieLens100K()
    if not data.is_downloaded:
        raise SystemExit(f"{data.path} is missing: see the first lines of this file")
    rows, stars, who = [], [], []
    for record, rating in data:
        genres = {"".join(filter(str.isalpha, name)) for name in record["genres"].split(",")}
        about = min(record["age"], 100.0) / 100.0, record["gender"] == "F", 1.0
        rows.append([*(genre in genres for genre in GENRES), *about])
        stars.append((rating - 3.0) / 2.0)
        who.append(record["user"])
    features = np.array(rows, dtype=float)
    return features / np.linalg.norm(features, axis=1, keepdims=True), np.array(stars), who


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--separation", type=int, default=1)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--quick", action="store_true", help="one run instead of five")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the table shows it
    rule = dpoco.Participation(options.rounds, options.separation)
    compare(*ratings(), rule, options.epsilon, 1 if options.quick else 5)


if __name__ == "__main__":
    main()
