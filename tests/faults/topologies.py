"""Redis in company: a master with replicas and Sentinels, and a cluster."""

import os
import re
import signal
import subprocess

import support
from stage import Redis
from support import Program, make_folder, reserved_port, wait_until


def is_master(redis):
    try:
        return redis.command("ROLE")[0] == "master"
    except (OSError, EOFError):
        return False


class Sentinel(Program):
    """One Sentinel. Its file is its own: it writes there what it has found out."""

    def __init__(self, test):
        self.folder = make_folder(test)
        self.port = reserved_port(test)
        self.id = f"{self.port:040x}"
        test.addCleanup(self.end, signal.SIGKILL)

    def start(self, name, members, others):
        """What it would find out within some seconds stands in its file from the start."""
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}",
                 f"sentinel myid {self.id}",
                 f"sentinel monitor {name} 127.0.0.1 {members[0].port} 2",
                 f"sentinel down-after-milliseconds {name} 500",
                 f"sentinel failover-timeout {name} 2000"]
        lines += [f"sentinel known-replica {name} 127.0.0.1 {replica.port}"
                  for replica in members[1:]]
        lines += [f"sentinel known-sentinel {name} 127.0.0.1 {other.port} {other.id}"
                  for other in others]
        file = os.path.join(self.folder, "sentinel.conf")
        with open(file, "w", encoding="ascii") as config:
            config.write("\n".join(lines) + "\n")
        self.start_process([support.REDIS_SERVER, file, "--sentinel"], self.folder,
                           stdout=subprocess.DEVNULL)
        wait_until(lambda: self.answers() or not self.is_running(), "the Sentinel answers")
        if not self.is_running():
            raise AssertionError(f"the Sentinel did not start: {self.log()}")

    # As a Redis on a port.
    tcp = True
    connect = support.Redis.connect
    command = support.Redis.command
    answers = support.Redis.answers


# A master would wait 5 s for more replicas before it sends them its data.
AT_ONCE = ("--repl-diskless-sync-delay", "0")


def follow(master, replica):
    """Makes one the replica of the other, and waits until it gets what is written there."""
    assert replica.command("REPLICAOF", "127.0.0.1", str(master.port)) == "OK"
    master.command("SET", "followed", "yes", "EX", "600")
    wait_until(lambda: replica.command("GET", "followed") == "yes", "the replica follows")
    # What was there is sent as a whole; what comes later, a moment later.
    master.command("SET", "followed", "closely", "EX", "600")
    wait_until(lambda: replica.command("GET", "followed") == "closely", "it follows closely")


class Watched:
    """A master and two replicas, watched by three Sentinels."""

    NAME = "weir-master"

    def __init__(self, test):
        self.members = [Redis(test, *AT_ONCE, tcp=True) for _ in range(3)]
        for replica in self.members[1:]:
            follow(self.members[0], replica)
        self.sentinels = [Sentinel(test) for _ in range(3)]
        for sentinel in self.sentinels:
            others = [other for other in self.sentinels if other is not sentinel]
            sentinel.start(self.NAME, self.members, others)
        wait_until(lambda: all(map(self.knows_all, self.sentinels)), "the Sentinels know each other")

    @property
    def url(self):
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{places}/{self.NAME}"

    def knows_all(self, sentinel):
        words = sentinel.command("SENTINEL", "MASTER", self.NAME)
        known = dict(zip(words[::2], words[1::2]))
        return (known["num-slaves"], known["num-other-sentinels"]) == ("2", "2")

    def named(self, but=None):
        """Whom the Sentinels name, if all name the same, and it is a master by its own word."""
        names = {tuple(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME))
                 for sentinel in self.sentinels}
        if len(names) > 1:
            return None
        port = int(names.pop()[1])
        member = next(member for member in self.members if member.port == port)
        return member if member is not but and is_master(member) else None

    def wait_for_another(self, old):
        """Returns the master that has taken the place of `old`."""
        return wait_until(lambda: self.named(but=old), "another one is the master")

    def held(self, route):
        return self.named().held(route)


class Node(Redis):
    """A node of a cluster, on two ports that the system chose."""

    # Unless told so, all nodes refuse to work while one of the masters is missing.
    ALWAYS = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no",
              "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0", *AT_ONCE)

    def __init__(self, test):
        self.bus_port = reserved_port(test)
        super().__init__(test, tcp=True)

    def start_process(self, arguments, folder, **how):
        super().start_process([*arguments, *self.ALWAYS, "--cluster-port", str(self.bus_port)],
                              folder, **how)

    @property
    def id(self):
        return self.command("CLUSTER", "MYID")

    @property
    def place(self):
        return f"127.0.0.1:{self.port}"

    def is_content(self):
        return "cluster_state:ok" in self.command("CLUSTER", "INFO")


class Cluster:
    """Three masters with a replica each."""

    SLOTS = 16384

    def __init__(self, test):
        self.nodes = [Node(test) for _ in range(6)]
        masters, replicas = self.nodes[:3], self.nodes[3:]
        for number, master in enumerate(masters):
            first, last = (self.SLOTS * n // 3 for n in (number, number + 1))
            self.do(master, "CLUSTER", "ADDSLOTSRANGE", str(first), str(last - 1))
        for node in self.nodes[1:]:
            self.do(node, "CLUSTER", "MEET", "127.0.0.1", str(self.nodes[0].port),
                    str(self.nodes[0].bus_port))
        wait_until(lambda: all(self.count(node) == 6 for node in self.nodes), "all have met")
        for master, replica in zip(masters, replicas):
            wait_until(lambda: replica.command("CLUSTER", "REPLICATE", master.id) == "OK",
                       "the replica knows its master")
        wait_until(self.is_whole, "the cluster is whole")

    @property
    def url(self):
        return "redis+cluster://" + ",".join(node.place for node in self.nodes[:3])

    @staticmethod
    def do(node, *words):
        reply = node.command(*words)
        assert reply == "OK", (words, reply)

    @staticmethod
    def count(node):
        return len(re.findall(r"^\w{40} ", node.command("CLUSTER", "NODES"), flags=re.M))

    def running(self):
        return [node for node in self.nodes if node.is_running()]

    def is_whole(self):
        return all(node.is_content() and "slave" in node.command("CLUSTER", "NODES")
                   and ("master_link_status:down" not in node.command("INFO", "replication"))
                   for node in self.running())

    def is_followed(self, master):
        """Its replica has confirmed that it gets what is written."""
        return re.search(r"offset=[1-9]", master.command("INFO", "replication")) is not None

    def masters(self):
        return [node for node in self.running() if is_master(node)]

    def slot_of(self, client):
        """Where the keys of a client of the load are."""
        return int(self.nodes[1].command("CLUSTER", "KEYSLOT", f"{{api_key=load-{client}}}"))

    def is_of_first(self, client):
        """The first node was given the first third of the slots."""
        return self.slot_of(client) < self.SLOTS // 3

    def held(self, route):
        return sum(node.held(route) for node in self.masters())

    @staticmethod
    def redirections(node, kind):
        """How often a node has answered "ASK" or "MOVED"."""
        found = re.search(rf"errorstat_{kind}:count=(\d+)", node.command("INFO", "errorstats"))
        return int(found[1]) if found else 0

    def move(self, slot, source, target, pause):
        """Moves a slot as redis-cli does, and lets time pass while it is half there, until somebody
        is sent on."""
        asked = self.redirections(source, "ASK")
        self.do(target, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id)
        self.do(source, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", target.id)
        pause()
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", str(slot), "10"):
            for key in keys:
                reply = source.command("MIGRATE", "127.0.0.1", str(target.port), key, "0", "5000")
                assert reply in ("OK", "NOKEY"), reply
            pause()
        wait_until(lambda: self.redirections(source, "ASK") > asked, "somebody is sent on")
        for node in (target, source):
            self.do(node, "CLUSTER", "SETSLOT", str(slot), "NODE", target.id)
