"""Files larger than memory: rounds a second and peak memory, by length of the file.

    python bench/large.py [--rows 1e5 1e6 1e7] [--write]

writes a CSV and a Parquet file of each length (four features and a label; 0.5 GB for 1e7
rows, in a temporary folder), reads each in parts of 65,536 rows in its own process, and lets
`NoisyFTRL` learn from them. ``--write`` writes the table into docs/guide/large_streams.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from pages import replace_table

import dpoco

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "large_streams.md"
BLOCK = 65_536
NAMES = ("a", "b", "c", "d", "y")


def write_file(path: Path, rows: int) -> None:
    """Write a file of so many rows: one block of records, again and again."""
    stream = dpoco.datasets.linear_regression_stream(BLOCK, 4, seed=1)
    table = np.column_stack([stream.features, stream.labels]).round(6)
    sizes = [BLOCK] * (rows // BLOCK) + [rows % BLOCK]
    if path.suffix == ".csv":
        lines = [",".join(map(str, row)) + "\n" for row in table.tolist()]
        whole = "".join(lines)
        with path.open("w") as file:
            file.write(",".join(NAMES) + "\n")
            for size in sizes:
                file.write(whole if size == BLOCK else "".join(lines[:size]))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    block = pa.table(dict(zip(NAMES, table.T, strict=True)))
    with pq.ParquetWriter(path, block.schema) as file:
        for size in sizes:
            file.write_table(block.slice(0, size))


def learn(path: str, rows: int) -> dict[str, float]:
    """Learn from the file; CPU time and memory of this process."""
    learner = dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(4, p=2.0, radius=1.0),
        dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
        horizon=rows,
        budget=dpoco.Budget(1.0, 1.0 / (10.0 * rows)),
        statistics="quadratic",
    )
    start, total = time.process_time(), 0.0
    for part in dpoco.datasets.chunks(path, label="y", task="regression"):
        total += float(learner.run(part.features, part.labels).losses.sum())
    seconds = time.process_time() - start
    assert learner.round == rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return {"rate": rows / seconds, "peak": peak, "loss": total / rows}


def make_table(lengths: list[int]) -> str:
    lines = [
        "| rows | file | size, MB | rows/s | peak memory, MB | average loss |",
        "|--:|---|--:|--:|--:|--:|",
    ]
    for rows in lengths:
        for kind in ("csv", "parquet"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"records.{kind}"
                write_file(path, rows)
                size = path.stat().st_size / 1e6
                command = [sys.executable, __file__, "--play", str(path), str(rows)]
                result = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(result.stdout)
            rate, peak, loss = float(f"{found['rate']:.2g}"), found["peak"], found["loss"]
            lines.append(
                f"| {rows:,} | {kind} | {size:,.0f} | {rate:,.0f} | {peak:,.0f} | {loss:.5f} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        path, rows = options.play
        print(json.dumps(learn(path, int(rows))))
        return
    table = make_table([int(rows) for rows in options.rows])
    if options.write:
        PAGE.write_text(replace_table(PAGE.read_text(), "large", table + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
