"""A server and the devices of many users: two processes that share a socket and nothing else.

Usage: python examples/local_client_server.py [--users N] [--rounds N] [--quick]

The server opens one round after another and sends its specification; devices answer with reports
of a few dozen bytes. Labels, noise and budgets stay in the devices' process, one ledger in a file.
Reports sent twice, late reports and devices without budget are refused. Needs nothing but dpoco.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from multiprocessing.connection import Client, Listener  # frames on a socket
from pathlib import Path

import numpy as np

from dpoco.errors import BudgetExceeded, RoundOrderError
from dpoco.local import DistributionLearner, Hypotheses, LocalClient, Report, RoundSpec

MODELS = Hypotheses(np.random.default_rng(0).dirichlet(np.ones(12), size=8))  # known to all
TRUTH, EPSILON = 3, 4.0


def serve(users: int, rounds: int) -> None:
    """Open rounds, take reports, answer what became of each."""
    learner = DistributionLearner(MODELS, epsilon=EPSILON, horizon=rounds)
    with Listener(("127.0.0.1", 0)) as listener:
        own = [sys.executable, __file__, "--port", str(listener.address[1])]
        devices = subprocess.Popen([*own, "--users", str(users), "--rounds", str(rounds)])
        with listener.accept() as channel:
            specs: dict[int, RoundSpec] = {}
            while message := channel.recv_bytes():
                if message == b"next":
                    spec = learner.round_spec()
                    specs[spec.round] = spec
                    channel.send_bytes(spec.to_bytes())
                    continue
                try:
                    report = Report.from_bytes(message)
                    learner.update(specs[report.round], report)
                    channel.send_bytes(b"taken")
                except (KeyError, ValueError, RoundOrderError) as error:
                    channel.send_bytes(f"refused: {error}".encode())
        devices.wait()
    print(f"server: {learner.reports} reports, weights {learner.weights.round(3).tolist()}")
    print(f"server: confidence set {learner.confidence_set(beta=0.05).tolist()}, truth {TRUTH}")
    print(f"server: {learner.guarantee!r}")


def answer(port: int, users: int, rounds: int) -> None:
    """Hold the labels of all users and answer each round with the reports of some."""
    rng = np.random.default_rng()
    labels = rng.choice(12, p=MODELS.matrix()[TRUTH], size=users)
    with tempfile.TemporaryDirectory() as folder, Client(("127.0.0.1", port)) as channel:
        ledger = Path(folder) / "ledger"
        devices = [LocalClient(MODELS, EPSILON, ledger=None if i else ledger) for i in range(users)]

        def deliver(what: str, report: Report) -> None:
            channel.send_bytes(report.to_bytes())
            verdict = channel.recv_bytes().decode()
            if what or verdict != "taken":
                print(f"device: {what}, {len(report.to_bytes())} bytes: {verdict}", flush=True)

        late = None
        for number, members in enumerate(np.array_split(np.arange(users), rounds)):
            channel.send_bytes(b"next")
            spec = RoundSpec.from_bytes(channel.recv_bytes())
            reports = [devices[i].respond(spec, y=int(labels[i])) for i in members]
            if number == 0:
                print(f"device: round 1 is about {spec.channel}, {len(spec.to_bytes())} bytes")
                deliver("first report", reports[0])
                deliver("the same again", reports.pop(0))
                late = reports.pop()
            elif number == 1 and late is not None:
                deliver("a report to round 1", late)
            for report in reports:
                deliver("", report)
        devices[0].close()  # the device is switched off, and on again
        with LocalClient(MODELS, EPSILON, ledger=ledger) as again:
            try:
                again.respond(spec, y=0)
            except BudgetExceeded as error:
                print(f"device: first device after a restart: {error}", flush=True)
        channel.send_bytes(b"")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)  # the devices' process
    parser.add_argument("--quick", action="store_true", help="400 users, 20 rounds")
    options = parser.parse_args()
    size = (400, 20) if options.quick else (options.users, options.rounds)
    serve(*size) if options.port is None else answer(options.port, *size)
