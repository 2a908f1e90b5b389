"""One private learner behind HTTP, with the release journal: kill it, start it, nothing is doubled.

Usage: python examples/http_service.py JOURNAL [--port N]
  GET  /decision   the current round and its decision      POST /rounds/N   ends round N
  GET  /rounds/N   what round N released                   POST /tickets    a decision and a ticket
  GET  /guarantee  what is promised                        POST /tickets/T  its record, in any order

A record is {"features": [...], "label": y}; sent again, it is answered again and played once. Slow
clients wait alone. Nothing is logged, no answer quotes a request. In front: a proxy that encrypts.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal

BUDGET, LARGEST_BODY = dpoco.Budget(epsilon=1.0, delta=1e-6), 2**16


def make() -> dpoco.frank_wolfe.TreeFrankWolfe:  # of a new journal; an old one goes on
    ball, loss = dpoco.domains.LpBall(3), dpoco.losses.LogisticLoss(feature_bound=1.0)
    return dpoco.frank_wolfe.TreeFrankWolfe(ball, loss, horizon=100_000, budget=BUDGET)


class Service(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        pass  # it would print the client's address


class Handler(BaseHTTPRequestHandler):
    timeout = 5  # seconds of silence

    def reply(self, stream: Any, record: Any) -> dict[str, Any]:
        match self.command, *self.path.strip("/").split("/"):
            case "GET", "decision":
                return {"round": stream.round, "decision": stream.decide().tolist()}
            case "GET", "rounds", turn if turn.isdecimal():
                return {"round": int(turn), "decision": stream.release(int(turn)).tolist()}
            case "GET", "guarantee":
                return stream.guarantee.to_dict()
            case "POST", "tickets":
                decision, ticket = stream.decide(ticket=True)
                return {"decision": decision.tolist(), "ticket": ticket.to_bytes().hex()}
            case "POST", "tickets", text:
                place = {"ticket": dpoco.Ticket.from_bytes(bytes.fromhex(text))}
            case "POST", "rounds", turn if turn.isdecimal():
                place = {"round": int(turn)}
            case _:
                raise LookupError("no such page")
        stream.observe(record["features"], record["label"], **place)
        return {"round": stream.round}

    def answer(self) -> None:
        try:
            length = min(max(int(self.headers.get("Content-Length", 0)), 0), LARGEST_BODY)
            record = json.loads(self.rfile.read(length) or "{}")  # one that is cut off: refused
            status, body = 200, self.reply(self.server.stream, record)  # type: ignore[attr-defined]
        except dpoco.DpocoError as error:  # out of turn, another record, past the horizon, ...
            status, body = 409, {"error": type(error).__name__, "reason": str(error)}
        except LookupError:
            status, body = 404, {"error": "no such page, or an incomplete record"}
        except (ValueError, TypeError, RecursionError):
            status, body = 400, {"error": "not a record"}
        except Exception as error:  # the disk is full, say: nothing was released
            status, body = 500, {"error": type(error).__name__}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    do_GET = do_POST = answer  # noqa: N815

    def send_error(self, code: int, *_: Any) -> None:
        super().send_error(code)  # its texts quote the request

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("journal")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    opened = Journal(options.journal, ledger=Ledger(BUDGET))
    with opened as journal, Service(("127.0.0.1", options.port), Handler) as server:
        server.stream = journal.open("service", make)  # type: ignore[attr-defined]
        for name in (signal.SIGTERM, signal.SIGINT):  # the round at hand is played to its end
            signal.signal(name, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"port {server.server_port}", flush=True)
        server.serve_forever(poll_interval=0.05)
