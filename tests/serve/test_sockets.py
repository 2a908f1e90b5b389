"""Real sockets: clients that are silent, slow, rude or many, a kill, and an end in time.

Each of these broke the service that spoke HTTP itself: it never ended while a reader was slow, 400
silent connections kept out all others and filled its log, it took the last of two lengths and
ignored ``Transfer-Encoding``, and it kept connections that a client had asked to close.
"""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serve.conftest import CONTEXT, call, end, process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")

VISIT = {"user": "ann", "context": CONTEXT}
OUTSTANDING = b"dpoco_tickets_waiting"
HEAD = b"POST /deletions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A public service with 512 descriptors, which waits a second for its clients."""
    folder = tmp_path_factory.mktemp("service")
    limits = {"client_seconds": 1.0, "connections": 400}
    with process(folder, "--public", files=512, limits=limits) as service:
        yield service
        assert service.poll() is None
        assert end(service) == (0, "")  # nothing is logged, whatever came


def talk(running, data, *, half=False):
    """Send bytes, and return all that comes until the service closes the connection."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        connection.sendall(data)
        if half:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
        return answer


def is_closed(connection):
    """Return whether the service has closed a connection."""
    try:
        return connection.recv(65_536) == b""
    except ConnectionResetError:
        return True


def silent_clients(running, count):
    """Return connections that say nothing, half a request, or a request with half a body."""
    clients = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(count)]
    for client in clients[::3]:
        client.sendall(HEAD)
    for client in clients[1::3]:
        client.sendall(HEAD + b"Content-Length: 999\r\n\r\n{")
    return clients


def test_silent_clients_are_not_waited_for(running):
    """Over a second: the service waits that long."""
    assert call(running, "GET", "/healthz") == (200, {"ready": True})
    for client in silent_clients(running, 30):
        client.settimeout(30)
        assert is_closed(client)
        client.close()


INNER = b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("lengths", "body"),
    [
        (b"Content-Length: 2\r\nContent-Length: 40", b"{}"),
        (b"Content-Length: 40\r\nContent-Length: 2", b"{}"),
        (b"Content-Length: 2, 40", b"{}"),
        (b"Content-Length: 40\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"0\r\n\r\n"),
        (b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked", b"0\r\n\r\n"),
        (b"Transfer-Encoding: chunked, identity", b"0\r\n\r\n"),
        (b"Transfer-Encoding: xchunked\r\nContent-Length: 2", b"{}"),
        (b"Transfer-Encoding : chunked", b"0\r\n\r\n"),
        (b"Content-Length: +2", b"{}"), (b"Content-Length: 0x2", b"{}"),
        (b"Content-Length: -1", b"{}"), (b"Content-Length : 2", b"{}"),
        (b" Content-Length: 2\r\nContent-Length: 40", b"{}"),
    ],
)  # fmt: skip
def test_a_request_is_never_read_as_two(running, lengths, body):
    """Whatever a proxy made of it, one refusal comes, and the connection is closed."""
    answer = talk(running, HEAD + lengths + b"\r\n\r\n" + body + INNER + INNER)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.split()[1] in (b"400", b"415", b"501")  # 415: folded into the type


def test_chunks_are_a_body_like_any_other(running):
    body = json.dumps(VISIT).encode()
    request = (
        b"POST /decisions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (body[:5], len(body) - 5, body[5:])
    )
    assert talk(running, request).startswith(b"HTTP/1.1 200 ")


def test_a_second_start_on_the_same_port_leaves_the_service_alone(running):
    """Over a second: another process, which loads the library before it finds the port taken."""
    command = [*running.args[:6], str(running.port), "--public"]
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert second.stderr.startswith("error: ")
    assert call(running, "POST", "/decisions", VISIT)[0] == 200


def test_connections_close_as_their_clients_ask(running):
    live = b"GET /healthz/live HTTP/1.1\r\nHost: x\r\n"
    assert talk(running, live + b"Connection: close\r\n\r\n" + live + b"\r\n").count(b"HTTP/") == 1
    assert talk(running, b"GET /healthz/live HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    answer = talk(running, (live + b"\r\n") * 3 + live + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 4  # kept until then


def test_rude_clients_are_answered_without_a_quote(running):
    for data in (
        b"SECRET\r\n\r\n", b"GET /?SECRET HTTP/9\r\n\r\n", b"\x16\x03\x01\x00SECRET" * 50,
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"SECRET" * 20_000,
        HEAD + b"Content-Length: 999999999\r\n\r\n" + b"SECRET" * 20_000,
        b"GET /SECRET HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /SECRET HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\n"
        b"Upgrade: websocket\r\n\r\n",
    ):  # fmt: skip
        try:
            answer = talk(running, data)
        except (ConnectionResetError, BrokenPipeError):
            continue  # closed before all of it was read
        assert b"SECRET" not in answer
        assert answer[:10] in (b"HTTP/1.1 4", b"")


def test_a_client_that_goes_in_the_middle_of_a_visit_holds_up_nobody(running):
    """Visits whose clients do not wait for the answer: each ticket has a row, and its turn."""
    waiting = tickets(running)
    body = json.dumps(VISIT).encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", running.port)) as rude:
            rude.sendall(
                b"POST /decisions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
    assert call(running, "GET", "/healthz") == (200, {"ready": True})
    assert waiting <= tickets(running) <= waiting + 20


def tickets(running):
    status, metrics = call(running, "GET", "/metrics")
    assert status == 200
    (line,) = (each for each in metrics.encode().splitlines() if each.startswith(OUTSTANDING))
    return int(line.split()[1])


def test_clients_that_never_end_neither_keep_others_out_nor_it_from_ending(tmp_path):
    """Over a second: the service waits for them when it ends, and no longer than five seconds.

    There are more of them than it has descriptors, and it is told to wait an hour for each.
    """
    limits = {"client_seconds": 3600.0, "connections": 400}
    with process(tmp_path, "--public", files=512, limits=limits) as running:
        clients = silent_clients(running, 600)
        assert call(running, "POST", "/decisions", VISIT)[0] == 200
        for _ in range(3):  # these read nothing
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", running.port))
            reader.setblocking(False)
            request, sent = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50, 0
            while select.select([], [reader], [], 0.5)[1] and sent < 10**7:
                sent += reader.send(request)
            clients.append(reader)
        assert call(running, "GET", "/healthz") == (200, {"ready": True})
        assert end(running) == (0, "")
        for client in clients:
            client.close()


def test_killed_at_work_it_goes_on_with_every_ticket(tmp_path):
    """Over a second: a service that is started twice. One durable decision for each answer."""
    with process(tmp_path, "--public") as running:
        asked = [{**VISIT, "user": f"user {n}", "request": "1"} for n in range(20)]
        answers = [call(running, "POST", "/decisions", each) for each in asked]
        assert {status for status, _ in answers} == {200}
        paid = {"ticket": answers[0][1]["ticket"], "reward": 0.5}
        assert call(running, "POST", "/rewards", paid)[0] == 200
        running.send_signal(signal.SIGKILL)
        running.wait()
    with process(tmp_path, "--public") as running:
        assert tickets(running) == 20
        assert [call(running, "POST", "/decisions", each) for each in asked] == answers
        assert call(running, "POST", "/rewards", {**paid, "reward": 0.25})[0] == 409
        assert call(running, "POST", "/rewards", paid)[0] == 200
        assert tickets(running) == 20
        assert end(running) == (0, "")


def test_the_example_of_an_application_asks_it(tmp_path):
    """Over a second: a service, and a process that asks it."""
    example = Path(__file__).parents[2] / "examples" / "bandit_client.py"
    with process(tmp_path, arms=5, dimension=8) as running:
        made = subprocess.run(
            [*running.args[:5], "--new-token", "shop", "--operator"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        url, token = f"http://127.0.0.1:{running.port}", made.stdout.strip()
        played = subprocess.run(
            [sys.executable, str(example), url, token, "--quick"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert played.stdout.startswith("20 visits, mean reward ")
        assert played.stdout.endswith("one user deleted: 1\n")
        assert end(running)[0] == 0
