from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("typer")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A small CSV in the working directory, which is the test's own."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(6)
    features = generator.uniform(0.0, 10.0, size=(400, 3))
    labels = (features[:, 0] > features[:, 1]).astype(int)
    path = tmp_path / "events.csv"
    lines = ["speed,heat,load,alarm"] + [
        ",".join(f"{v:.6f}" for v in row) + f",{y}" for row, y in zip(features, labels, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def invoke():
    """Run the app in this process: result with exit_code, stdout, stderr."""
    from dpoco.cli._app import app

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run
