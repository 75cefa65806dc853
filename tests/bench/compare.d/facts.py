"""What the figures were measured on."""

import json
import os
import pathlib
import platform
import re
import subprocess


def load_average():
    return os.getloadavg()[0]


def said_by(*command):
    done = subprocess.run(command, check=False, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def version_in(text):
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found[0] if found else "unknown"


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", text, flags=re.M)
    is_virtual = " hypervisor" in text
    return (model[1] if model else platform.machine()) + (", virtual machine" if is_virtual else "")


def system():
    text = pathlib.Path("/etc/os-release").read_text()
    name = re.search(r'^PRETTY_NAME="?(.*?)"?$', text, flags=re.M)
    return f"{name[1] if name else platform.system()}, Linux {platform.release()}"


def npm_versions(packages):
    """The versions of what package.json names, in one text."""
    names = json.loads((packages / "package.json").read_text())["dependencies"]
    return ", ".join(f"{name} {version}" for name, version in names.items())


def collect(packages, body_bytes):
    return {
        "processor": f"{os.cpu_count()} cores, {processor()}",
        "system": system(),
        "body": f"{body_bytes} bytes of JSON",
        "libmicrohttpd": version_in(said_by("pkg-config", "--modversion", "libmicrohttpd")),
        "hiredis": version_in(said_by("pkg-config", "--modversion", "hiredis")),
        "compiler": said_by("cc", "--version").splitlines()[0],
        "Redis": version_in(said_by("redis-server", "--version")),
        "nginx": version_in(said_by("nginx", "-v")),
        "HAProxy": version_in(said_by("haproxy", "-v")),
        "Node": version_in(said_by("node", "--version")),
        "npm packages": npm_versions(packages),
        "wrk": version_in(said_by("wrk", "-v")),
    }
