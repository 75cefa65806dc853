"""Starts weir-demo, Redis and nginx for tests, and talks HTTP to them.

Whatever is started listens where the system chose and is ended by its process id. Nothing sleeps to
hope: wait_until() looks until a thing is so.
"""

import contextlib
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

DEMO = os.environ["WEIR_DEMO"]

REDIS_SERVER = os.environ.get("WEIR_REDIS_SERVER") or "redis-server"

# Sanitizers and busy machines are slow; only a hang takes this long.
PATIENCE_S = 60

FREE = {"X-API-Key": "free-demo-key"}
PRO = {"X-API-Key": "pro-demo-key"}

KEYS = {
    "keys": [
        {
            "id": "acme-free",
            "sha256": "4a55ea81e1313e68a8feea48e98110bc50e4ca82fed243a92f8de2e9e00e5ecb",
            "plan": "free",
            "tenant": "acme",
        },
        {
            "id": "globex-pro",
            "sha256": "ff83448544d92a31f29f045bb4b32f207b8e8358882135d71cd07e235d682936",
            "plan": "pro",
            "tenant": "globex",
        },
    ]
}

QUOTA_FIELDS = ("ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining")


def wait_until(condition, what, within_s=PATIENCE_S):
    """Looks until condition() is true, and returns what it returned."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"after {within_s} s it is still not so that {what}")
        time.sleep(0.01)


def reserved_port(test):
    """A port for a server that is started later, and perhaps again: it stays bound, by a socket
    that shares it with whoever sets SO_REUSEADDR too, so that nobody else is given it meanwhile."""
    holder = socket.socket()
    test.addCleanup(holder.close)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder.getsockname()[1]


# --- HTTP ---


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {}
        for name, value in headers:
            name = name.lower()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self.body = body

    def json(self):
        return json.loads(self.body)

    def quotas(self):
        """{"burst": {"q": 10, "w": 2, "r": 9, "t": 1}} from both fields of the draft."""
        found = {}
        for field in ("ratelimit-policy", "ratelimit"):
            for name, rest in re.findall(r'"([^"]+)"((?:;\w+=\d+)*)', self.headers.get(field, "")):
                for key, number in re.findall(r";(\w+)=(\d+)", rest):
                    found.setdefault(name, {})[key] = int(number)
        return found

    def quota_fields(self):
        return [name for name in QUOTA_FIELDS if name in self.headers]

    def retry_after(self):
        """Seconds; None where there is no such field. Anything but a positive integer fails."""
        text = self.headers.get("retry-after")
        if text is None:
            return None
        assert re.fullmatch(r"[1-9][0-9]*", text), f"Retry-After is {text!r}"
        return int(text)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """One connection, kept from request to request."""

    def __init__(self, where, source="", unix=None):
        if unix is not None:
            self.connection = UnixConnection(unix)
        else:
            self.connection = http.client.HTTPConnection(
                *where, timeout=PATIENCE_S, source_address=(source, 0) if source else None
            )

    def ask(self, method, target, headers=None, body=None):
        self.connection.request(method, target, body=body, headers=headers or {})
        answer = self.connection.getresponse()
        return Response(answer.status, answer.getheaders(), answer.read())

    def get(self, target, headers=None):
        return self.ask("GET", target, headers)

    def post(self, target, headers=None, body=b""):
        return self.ask("POST", target, headers, body)

    def local_port(self):
        """Of the connection that is open; another one has another."""
        return self.connection.sock.getsockname()[1] if self.connection.sock else None

    def close(self):
        self.connection.close()


def raw_request(method, target, headers=None, body=b""):
    """A request's bytes; `body` None leaves a body that `headers` announces unsent."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def read_response(stream, method="GET"):
    """The next response of a socket's binary file; None at the end of the connection."""
    status_line = stream.readline()
    if not status_line:
        return None
    status = int(status_line.split()[1])
    headers = []
    for line in iter(stream.readline, b"\r\n"):
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    response = Response(status, headers, b"")
    if method != "HEAD" and status >= 200:
        response.body = read_body(stream, response.headers)
    return response


def read_body(stream, headers):
    if headers.get("transfer-encoding") != "chunked":
        return stream.read(int(headers.get("content-length", "0")))
    body = b""
    while True:
        size = int(stream.readline(), 16)
        body += stream.read(size)
        stream.readline()
        if size == 0:
            return body


def was_read(connection):
    """Whether the server's end of a TCP connection has read all that was sent (proc(5))."""
    ports = [f":{address[1]:04X}" for address in (connection.getpeername(),
                                                  connection.getsockname())]
    with open("/proc/net/tcp", encoding="ascii") as table:
        for row in table:
            columns = row.split()
            if columns[1].endswith(ports[0]) and columns[2].endswith(ports[1]):
                return columns[4].endswith(":00000000")
    return False


# --- programs ---


class Program:
    """A process of ours, with its standard error in a file."""

    process = None

    def start_process(self, arguments, folder, **how):
        self.log_name = os.path.join(folder, f"{os.path.basename(arguments[0])}.log")
        with open(self.log_name, "ab") as log:
            self.process = subprocess.Popen(arguments, stderr=log, **how)

    def log(self):
        with open(self.log_name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def send(self, number):
        os.kill(self.process.pid, number)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def wait(self):
        """Waits until the process has ended, and returns its exit status."""
        status = self.process.wait(timeout=PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def end(self, number=signal.SIGTERM):
        """Ends the process, if it still runs, and returns its exit status."""
        if self.process is None:
            return None
        if self.is_running():
            self.send(number)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class Demo(Program):
    """A running weir-demo. `config` is a policy as a dict, or None for the demo's own file. A
    machine that is slow for a moment must not look like a store that failed, unless the policy says
    so."""

    def __init__(self, test, config=None, store=None, listen="127.0.0.1:0", options=(),
                 every_decision=True):
        self.folder = make_folder(test)
        arguments = [DEMO, "--listen", listen, *options]
        if every_decision:
            arguments += ["--every-decision"]
        if config is not None:
            config = {"store": {"url": "memory:", "timeout": "10s"}, **config}
            arguments += ["--config", write_config(self.folder, config)]
        if store is not None:
            arguments += ["--store", store]
        self.start_process(arguments, self.folder, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.stop)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.wait()
            raise AssertionError(f"weir-demo did not start: {line!r} {self.log()}")
        self.url = line.split()[-1]
        found = re.fullmatch(r"http://(\[.*\]|.*):(\d+)", self.url)
        self.where = (found[1].strip("[]"), int(found[2])) if found else None
        self.test = test

    def stop(self):
        """A demo that a test has not ended must still end well."""
        if self.process.returncode is None:
            status = self.end()
            if status != 0:
                raise AssertionError(f"weir-demo ended with {status}: {self.log()}")

    def client(self, source="", to=None):
        made = Client((to or self.where[0], self.where[1]), source)
        self.test.addCleanup(made.close)
        return made

    def ask(self, method, target, headers=None, body=None, source="", to=None):
        """One request on a connection of its own."""
        client = Client((to or self.where[0], self.where[1]), source)
        with contextlib.closing(client):
            return client.ask(method, target, headers, body)

    def get(self, target, headers=None, **how):
        return self.ask("GET", target, headers, **how)

    def post(self, target, headers=None, body=b"", **how):
        return self.ask("POST", target, headers, body, **how)

    @contextlib.contextmanager
    def socket(self):
        """A bare connection, as a socket and its binary file."""
        with socket.create_connection(self.where, timeout=PATIENCE_S) as made:
            with made.makefile("rb") as stream:
                yield made, stream

    def lines(self):
        """What it has logged; every line must be JSON."""
        return [json.loads(line) for line in self.log().splitlines()]

    def decisions(self, outcome):
        return [line for line in self.lines() if line.get("decision") == outcome]


def read_reply(stream):
    """One reply of the Redis protocol, version 2."""
    line = stream.readline().decode().rstrip()
    if not line:
        raise EOFError("Redis closed the connection")
    kind, rest = line[0], line[1:]
    if kind == ":":
        return int(rest)
    if kind == "$":
        return None if rest == "-1" else stream.read(int(rest) + 2)[:-2].decode("latin-1")
    if kind == "*":
        return [read_reply(stream) for _ in range(int(rest))]
    return rest if kind == "+" else line


class Redis(Program):
    """A redis-server of our own: on a Unix socket, or with tcp=True on a port."""

    def __init__(self, test, tcp=False, start=True):
        self.folder = make_folder(test)
        self.tcp = tcp
        self.port = reserved_port(test) if tcp else 0
        self.path = os.path.join(self.folder, "redis.sock")
        test.addCleanup(self.end, signal.SIGKILL)
        if start:
            self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0" if self.tcp else f"redis+unix://{self.path}"

    def start(self):
        """Starts it, again too, and waits until it answers."""
        arguments = [REDIS_SERVER, "--save", "", "--appendonly", "no", "--dir", self.folder]
        if self.tcp:
            arguments += ["--bind", "127.0.0.1", "--port", str(self.port)]
        else:
            arguments += ["--port", "0", "--unixsocket", self.path]
        self.start_process(arguments, self.folder, stdout=subprocess.DEVNULL)
        wait_until(lambda: self.answers() or not self.is_running(), "Redis answers or ends")
        if not self.is_running():
            raise AssertionError(f"{REDIS_SERVER} did not start: {self.log()}")

    def connect(self):
        if self.tcp:
            return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE_S)
        try:
            made.connect(self.path)
        except OSError:
            made.close()
            raise
        return made

    def command(self, *words):
        """Runs one command and returns its reply: text, a number, a list, or None."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
        with self.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(request.encode())
            return read_reply(stream)

    def answers(self):
        try:
            return self.command("PING") == "PONG"
        except (OSError, EOFError):
            return False

    def stop_answering(self):
        self.send(signal.SIGSTOP)

    def go_on(self):
        self.send(signal.SIGCONT)

    def kill(self):
        self.send(signal.SIGKILL)
        self.wait()


class Nginx(Program):
    """An nginx in front of a demo, which adds to X-Forwarded-For as its manual shows."""

    CONFIG = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {upstream};
            proxy_bind {proxy_address};
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Real-IP $remote_addr;
        }}
    }}
}}
"""

    def __init__(self, test, upstream, proxy_address="127.0.0.1"):
        self.folder = make_folder(test)
        test.addCleanup(self.end)
        self.port = reserved_port(test)
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(
                self.CONFIG.format(
                    folder=self.folder,
                    user=pwd.getpwuid(os.geteuid()).pw_name,
                    port=self.port,
                    upstream=upstream,
                    proxy_address=proxy_address,
                )
            )
        self.start_process(["nginx", "-e", "stderr", "-p", self.folder, "-c", config], self.folder)
        wait_until(lambda: self.listens() or not self.is_running(), "nginx listens or ends")
        if not self.is_running():
            raise AssertionError(f"nginx did not start: {self.log()}")

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, method, target, headers=None, source=""):
        with contextlib.closing(Client(("127.0.0.1", self.port), source)) as client:
            return client.ask(method, target, headers)


# --- files ---


def make_folder(test):
    folder = tempfile.mkdtemp(prefix="weir-test-")
    test.addCleanup(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_config(folder, config):
    """Writes a policy file, and the keys file that all of them name."""
    for name, content in (("policy.json", config), ("api-keys.json", KEYS)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    return os.path.join(folder, "policy.json")


def make_config(policies, routes, **others):
    """A policy file: {"name": [limits] or a whole policy}, and routes as ("GET /ip", {…})."""
    return {
        "api_keys": {"header": "X-API-Key", "file": "api-keys.json"},
        "policies": {
            name: {"limits": policy} if isinstance(policy, list) else policy
            for name, policy in policies.items()
        },
        "routes": [{"match": match, **route} for match, route in routes],
        **others,
    }


def one_limit(by, rate, match="* /*", auth="none", **limit):
    """A policy file with one limit for everything."""
    return make_config(
        {"only": [{"name": "only", "by": by, "rate": rate, **limit}]},
        [(match, {"auth": auth, "policy": "only"})],
    )


class DemoTest(unittest.TestCase):
    """What every test here may assert."""

    def assert_no_quota(self, response):
        self.assertEqual(response.quota_fields(), [], response)

    def assert_problem(self, response, status, kind="about:blank"):
        self.assertEqual(response.status, status, response)
        self.assertEqual(response.headers["content-type"], "application/problem+json")
        problem = response.json()
        self.assertEqual(problem["status"], status)
        self.assertTrue(problem["type"].endswith(kind), problem)
        return problem

    def assert_refused(self, response):
        """429 as it must be on every route."""
        problem = self.assert_problem(response, 429, "#quota-exceeded")
        self.assertIsNotNone(response.retry_after(), response)
        self.assertEqual(response.headers["cache-control"], "no-store")
        return problem
