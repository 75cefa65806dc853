"""Processes that are started, asked, loaded, and ended again."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
PATIENCE_S = 20

# As many as fit two cores well, and never 128 at once: libmicrohttpd's epoll loop stalls there.
CONNECTIONS = 64


class Failure(Exception):
    """What makes the comparison worthless; its text is for the reader."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def stat_of(pid):
    """The fields of /proc/PID/stat from the third on, or none if the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


class Server:
    """A server in a session of its own, so that its workers are found, and end, with it."""

    def __init__(self, name, command, folder):
        self.name = name
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "NODE_ENV": "production"})

    def processes(self):
        session = str(self.process.pid)
        stats = (stat_of(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return [stat for stat in stats if stat and stat[3] == session]

    def cpu_us(self):
        """User and system time of all its processes so far."""
        return sum(int(stat[11]) + int(stat[12]) for stat in self.processes()) * TICK_US

    def fail(self, why):
        last = self.log.read_text(errors="replace").splitlines()[-15:]
        raise Failure("\n".join([f"{self.name}: {why}", *(f"    | {line}" for line in last)]))

    def wait_until(self, is_true, what):
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            if self.process.poll() is not None:
                self.fail(f"it ended with status {self.process.returncode}")
            if time.monotonic() > deadline:
                self.fail(f"waited {PATIENCE_S} s in vain until {what}")
            time.sleep(0.02)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        # Whatever is left of its session; none of it can be anybody else's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def running(name, command, folder):
    server = Server(name, command, folder)
    try:
        yield server
    finally:
        server.end()


def ask(port, path, key="key-1"):
    """Status and body of one request; 0 if nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path, headers={"X-API-Key": key})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def run_wrk(port, path, keys, seconds, connections):
    done = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=10s", "-s", HERE / "load.lua",
         f"http://127.0.0.1:{port}", "--", path, str(keys)],
        capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_S)
    line = done.stdout.strip().rpartition("\n")[2]
    if done.returncode != 0 or not line.startswith("{"):
        raise Failure(f"wrk: {done.stdout}{done.stderr}")
    return json.loads(line)


def measure(server, redis, port, path, keys=1, seconds=1, connections=CONNECTIONS, refused=False):
    """One load, and what it cost; fails if the answers were not what they should be."""
    before, redis_before = server.cpu_us(), redis.cpu_us()
    load = run_wrk(port, path, keys, seconds, connections)
    cpu_us, redis_us = server.cpu_us() - before, redis.cpu_us() - redis_before
    requests = load["requests"]
    if requests == 0 or load["broken"]:
        server.fail(f"{requests} requests of {path}, {load['broken']} of them broken")
    let_through = requests - load["not_2xx"]
    if let_through > requests / 100 if refused else let_through < requests:
        server.fail(f"{let_through} of {requests} requests of {path} were let through")
    return {"per_s": requests / load["seconds"], "p50_us": load["p50_us"], "p99_us": load["p99_us"],
            "cpu_us": cpu_us / requests, "redis_us": redis_us / requests}
