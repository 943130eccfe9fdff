"""load: what the tests under load share."""
import os
import subprocess
import threading
import time

import psycopg

REPO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
AWAY = ("08006", "57P01", "57P02", "57P03")  # a server that does not answer now
faults, ended = [], threading.Event()


def pg(*arguments):
    env = {**os.environ, "SCYLLA_NO_BUILD": "1"}
    command = [f"{REPO}/scripts/pg", *arguments]
    return subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout


def place(reach):
    """What `pg start` printed, as a connection string."""
    words = dict(word.split("=", 1) for word in reach.split() if "=" in word)
    return f"host={words['SCYLLA_DATA']} port={words['PGPORT']} dbname=postgres"


def connect(where=""):
    return psycopg.connect(where, autocommit=True, prepare_threshold=None)


def guarded(call, *arguments):
    """Runs it in a thread, whose error fails the test."""
    def run():
        try:
            call(*arguments)
        except BaseException as error:
            faults.append(f"{call.__name__}: {error!r}")
            ended.set()
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def eventually(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.1)
