"""One private learner behind HTTP, with the release journal: kill it, start it, nothing is doubled.

Usage: python examples/http_service.py JOURNAL [--port N]

  GET  /decision    the current round and its decision
  POST /rounds/N    {"features": [...], "label": y}: ends round N; sent again, answered again
  GET  /rounds/N    what round N released
  GET  /guarantee   what is promised

One request at a time, since a learner has one writer. Nothing is logged and no answer quotes a
request. Encryption and authentication are for the proxy in front. No library but dpoco.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal

BUDGET, LARGEST_BODY = dpoco.Budget(epsilon=1.0, delta=1e-6), 2**16


def make() -> dpoco.frank_wolfe.TreeFrankWolfe:
    """Return the learner of a new journal; an old one goes on with its own."""
    ball, loss = dpoco.domains.LpBall(3), dpoco.losses.LogisticLoss(feature_bound=1.0)
    return dpoco.frank_wolfe.TreeFrankWolfe(ball, loss, horizon=100_000, budget=BUDGET)


class Handler(BaseHTTPRequestHandler):
    timeout = 5  # seconds that a silent client may hold the service

    def do_GET(self) -> None:
        self.answer(self.read)

    def do_POST(self) -> None:
        self.answer(self.observe)

    def read(self, stream: Any, path: list[str]) -> dict[str, Any]:
        match path:
            case ["decision"]:
                return {"round": stream.round, "decision": stream.decide().tolist()}
            case ["rounds", number] if number.isdecimal():
                return {"round": int(number), "decision": stream.release(int(number)).tolist()}
            case ["guarantee"]:
                return stream.guarantee.to_dict()
        raise LookupError("no such page")

    def observe(self, stream: Any, path: list[str]) -> dict[str, Any]:
        match path:
            case ["rounds", number] if number.isdecimal():
                length = int(self.headers.get("Content-Length", 0))
                if not 0 < length <= LARGEST_BODY:
                    raise ValueError("the record is missing or too long")
                record = json.loads(self.rfile.read(length))
                stream.observe(record["features"], record["label"], round=int(number))
                return {"round": stream.round}
        raise LookupError("no such page")

    def answer(self, action: Any) -> None:
        try:
            status, body = 200, action(self.server.stream, self.path.strip("/").split("/"))
        except dpoco.DpocoError as error:  # past the horizon, out of turn, another record, ...
            status, body = 409, {"error": type(error).__name__, "reason": str(error)}
        except LookupError:
            status, body = 404, {"error": "no such page, or an incomplete record"}
        except (ValueError, TypeError):
            status, body = 400, {"error": "not a record"}
        except Exception as error:  # the disk is full, say: nothing was released
            status, body = 500, {"error": type(error).__name__}
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("journal")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    opened = Journal(options.journal, ledger=Ledger(BUDGET))
    with opened as journal, HTTPServer(("127.0.0.1", options.port), Handler) as server:
        server.stream = journal.open("service", make)  # type: ignore[attr-defined]
        for name in (signal.SIGTERM, signal.SIGINT):  # the request at hand is answered first
            signal.signal(name, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"port {server.server_port}", flush=True)
        server.serve_forever(poll_interval=0.05)
