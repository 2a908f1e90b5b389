"""The service example: started, killed, started again; every release once and the same."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "http_service.py"
OPEN = build_opener(ProxyHandler({})).open  # never through a proxy


@contextmanager
def service(journal, end):
    command = [sys.executable, str(EXAMPLE), str(journal)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            port = process.stdout.readline().split()
            assert port, process.stderr.read()

            def call(path, record=None):
                raw = record is None or isinstance(record, bytes)
                data = record if raw else json.dumps(record).encode()
                url = f"http://127.0.0.1:{port[1]}/{path}"
                try:
                    with OPEN(url, data=data, timeout=60) as answer:
                        return answer.status, json.loads(answer.read())
                except HTTPError as error:
                    with error:
                        return error.code, json.loads(error.read())

            call.port = int(port[1])
            yield call
            process.send_signal(end)
            code = process.wait(timeout=60)
            assert code == (0 if end == signal.SIGTERM else -end)
            assert process.stderr.read() == ""  # nothing is logged
        finally:
            process.kill()


def record(rng):
    return {"features": rng.uniform(-0.5, 0.5, 3).tolist(), "label": 1.0}


def test_the_example_is_short_and_needs_the_standard_library_only():
    text = EXAMPLE.read_text()
    assert len(text.splitlines()) < 100
    imports = {line.split()[1].split(".")[0] for line in text.splitlines() if " import " in line}
    assert imports - {"dpoco"} <= set(sys.stdlib_module_names) | {"__future__"}


def test_killed_and_started_again_it_repeats_itself(tmp_path):
    rng = np.random.default_rng(0)
    journal, records, released = tmp_path / "journal.db", [], []
    with service(journal, signal.SIGKILL) as call:
        for turn in range(5):
            status, now = call("decision")
            assert (status, now["round"]) == (200, turn)
            records.append(record(rng))
            released.append(now["decision"])
            assert call(f"rounds/{turn}", records[-1]) == (200, {"round": turn + 1})
        upcoming = call("decision")
    with service(journal, signal.SIGTERM) as call:
        assert call("decision") == upcoming
        for turn in range(5):  # a client that did not see the answers sends all again
            assert call(f"rounds/{turn}", records[turn]) == (200, {"round": 5})
            assert call(f"rounds/{turn}") == (200, {"round": turn, "decision": released[turn]})
        assert call("decision") == upcoming
        status, refused = call("rounds/2", record(rng))
        assert (status, refused["error"]) == (409, "ReplayMismatch")
        status, refused = call("rounds/9", record(rng))
        assert (status, refused["error"]) == (409, "RoundOrderError")
        assert call("guarantee")[1]["certified"] is True
    assert len({tuple(decision) for decision in released}) == 5  # noise of its own in each round


@pytest.mark.parametrize(
    "body",
    [{"features": ["secret"], "label": 1.0}, {"features": [0.123456] * 4, "label": 1.0},
     {"label": 0.123456}, [0.123456]],
)  # fmt: skip
def test_answers_to_bad_records_quote_nothing(tmp_path, body):
    with service(tmp_path / "journal.db", signal.SIGTERM) as call:
        status, answer = call("rounds/0", body)
        assert status in (400, 404)
        assert "secret" not in str(answer)
        assert "0.123456" not in str(answer)
        assert call("decision")[1]["round"] == 0
        assert call("nowhere")[0] == 404


def test_late_records_go_by_tickets_and_survive_a_kill(tmp_path):
    rng = np.random.default_rng(1)
    journal, records = tmp_path / "journal.db", [record(rng), record(rng)]
    with service(journal, signal.SIGKILL) as call:
        issued = [call("tickets", b"")[1] for _ in range(2)]
        assert issued[0]["decision"] == issued[1]["decision"] == call("decision")[1]["decision"]
        assert call(f"tickets/{issued[1]['ticket']}", records[1]) == (200, {"round": 1})
    with service(journal, signal.SIGTERM) as call:
        for turn, i in ((1, 1), (2, 0), (2, 1)):  # doubled, new, doubled
            assert call(f"tickets/{issued[i]['ticket']}", records[i]) == (200, {"round": turn})
        status, refused = call(f"tickets/{issued[0]['ticket']}", records[1])
        assert (status, refused["error"]) == (409, "ReplayMismatch")
        other = issued[0]["ticket"]
        forged = other[:-1] + ("0" if other[-1] != "0" else "1")
        for text, expected in ((forged, 409), ("00", 409), ("x", 400)):
            assert call(f"tickets/{text}", records[0])[0] == expected
        assert call("decision")[1]["round"] == 2


def test_what_is_no_record_is_refused(tmp_path):
    """Nested deeper than the parser goes, too long, no text, cut off."""
    with service(tmp_path / "journal.db", signal.SIGTERM) as call:
        for body in (b"[" * 60_000, b'{"features":' * 5_000, b"[" * 70_000, b"\xff", b"{"):
            assert call("rounds/0", body) == (400, {"error": "not a record"})
        assert call("decision")[1]["round"] == 0


def test_slow_clients_wait_alone_and_nobody_is_named(tmp_path):
    """Clients that say nothing, half a request, or go away in the middle."""
    half = b"POST /rounds/0 HTTP/1.0\r\nContent-Length: 99\r\n\r\n{"
    with service(tmp_path / "journal.db", signal.SIGTERM) as call:
        for text in (b"", b"GET /deci", half):
            for _ in range(5):  # a call may take longer than the service waits for a client
                slow = socket.create_connection(("127.0.0.1", call.port))
                slow.sendall(text)
                assert call("decision")[1]["round"] == 0
                slow.setblocking(False)
                try:
                    ended = slow.recv(1)
                except BlockingIOError:
                    ended = None
                # A reset, so that the service cannot answer.
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                slow.close()
                if ended is None:
                    break
            assert ended is None  # it was waited for all the while
        with socket.create_connection(("127.0.0.1", call.port)) as rude:
            rude.sendall(b"SECRET /decision?x=0.123456 HTTP/9\r\n\r\n")
            answer = rude.makefile("rb").read()
            assert b"400" in answer
            assert b"SECRET" not in answer
            assert b"0.123456" not in answer
        assert call("decision")[1]["round"] == 0
