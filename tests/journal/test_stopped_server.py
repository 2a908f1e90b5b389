"""A PostgreSQL server that stops: no call waits for it longer than the store's timeout says."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.journal.journal_cases import KEY

import dpoco
from dpoco.journal import Journal, PostgresStore

FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
BINARIES = FOUND[-1].parent if FOUND else None
pytestmark = pytest.mark.skipif(BINARIES is None, reason="no PostgreSQL server is installed")
pytest.importorskip("psycopg")
TIMEOUT = 1.0


def _account():
    """A user whom a server may run as: not root."""
    if os.getuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("a server does not run as root, and there is no user postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid}


@pytest.fixture(scope="module")
def server():
    """A server in a directory of its own, that listens to a socket there: its dsn and process."""
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="dpoco-pg-", dir="/tmp"))
    if account:
        os.chown(folder, account["user"], account["group"])
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **account, "cwd": folder}
    subprocess.run(
        [BINARIES / "initdb", "-D", data, "-U", "tester", "--auth=trust", "-N"], check=True, **quiet
    )
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    process = subprocess.Popen([BINARIES / "postgres", "-D", data, *options], **quiet)
    dsn = f"host={folder} user=tester dbname=postgres"
    try:
        import psycopg

        for _ in range(200):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(dsn).close()
                break
            time.sleep(0.05)
        yield dsn, process
    finally:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def stopped(process):
    """Stop the server and its workers, which the kernel keeps connected."""
    workers = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False
    )
    pids = [process.pid, *map(int, workers.stdout.split())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def ends(call):
    """Check that a call ends with an error, and does not wait for ever."""
    errors = []

    def caught():
        try:
            call()
        except OSError as error:
            errors.append(str(error))

    thread = threading.Thread(target=caught, daemon=True)
    thread.start()
    thread.join(60.0)  # it ends after two seconds
    assert not thread.is_alive()
    (text,) = errors
    assert "cannot be written" in text


def make():
    return dpoco.mechanisms.ContinualSum(2, horizon=90, budget=dpoco.Budget(1.0, 1e-6), bound=1.0)


def test_no_call_waits_for_a_server_that_stopped(server):
    """Starts a server, and waits for it where that is the point: some seconds."""
    dsn, process = server
    store = PostgresStore(dsn, prefix="stops_", timeout=TIMEOUT)
    with Journal(store, key=KEY) as journal:
        stream = journal.open("s", make)
        first = stream.process([[0.5, 0.5]])
        with stopped(process):
            ends(lambda: stream.process([[0.1, 0.2]]))
            ends(lambda: stream.process([[0.1, 0.2]]))  # now it would have to connect
            ends(lambda: PostgresStore(dsn, prefix="stops_", timeout=TIMEOUT))
        assert np.array_equal(stream.release(0), first[0])
        stream.process([[0.1, 0.2]])
        assert stream.round == 2


def test_a_lock_is_waited_for_as_before(server):
    dsn, _ = server
    stores = [PostgresStore(dsn, prefix="locks_", timeout=TIMEOUT) for _ in range(2)]
    stores[0].begin()
    with pytest.raises(dpoco.StateError, match="locked by another process"):
        stores[1].begin()
    stores[0].commit()
    stores[1].rollback()
    stores[1].begin()
    stores[1].commit()
    for store in stores:
        store.close()


def test_journals_with_other_prefixes_do_not_wait(server):
    dsn, _ = server
    stores = [PostgresStore(dsn, prefix=f"{name}_", timeout=TIMEOUT) for name in ("one", "other")]
    assert stores[0].begin()  # makes its table
    assert stores[1].begin()
    for store in stores:
        store.commit()
        store.close()


@pytest.mark.parametrize("level", ["read\\\\ committed", "repeatable\\\\ read", "serializable"])
def test_a_writer_that_waited_sees_what_was_committed(server, level):
    """The journal is made while the second writer waits, whatever the server's default is."""
    dsn, _ = server
    dsn, prefix = f"{dsn} options='-c default_transaction_isolation={level}'", f"w{len(level)}_"
    begun = threading.Event()

    class Slow(PostgresStore):
        def commit(self):
            begun.set()
            time.sleep(0.3)
            super().commit()

    def first():
        Journal(Slow(dsn, prefix=prefix, timeout=5.0), key=KEY).close()

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(10.0)
    with Journal(PostgresStore(dsn, prefix=prefix, timeout=5.0), key=KEY) as journal:
        journal.open("s", make).process([[0.5, 0.5]])
    thread.join()
