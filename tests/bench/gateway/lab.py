"""Starting what is measured, and reading what it used: processes on ports of their own, pinned to cores, stopped by their id."""

import contextlib
import hashlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KEYS = 1000
HUGE = 1_000_000_000
# The proxy has a core to itself; upstream and client share the other.
CORES = sorted(os.sched_getaffinity(0))
PROXY_CORE, LOAD_CORE = CORES[0], CORES[-1]
START_SECONDS = 60


def find(name, *folders):
    """The path of a program, or nothing."""
    return next((str(path) for path in (Path(folder) / name for folder in folders) if path.exists()), None) or shutil.which(name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def keys_file(folder):
    """A thousand consumers with one key each."""
    lines = []
    for key in range(KEYS):
        digest = hashlib.sha256(f"key-{key:016}".encode()).hexdigest()
        lines.append(f'[consumers.c{key}]\ntier = "pro"\n[[consumers.c{key}.keys]]\nid = "k{key}"\nsha256 = "{digest}"\n')
    path = Path(folder) / "keys.toml"
    path.write_text("".join(lines))
    return path


def pinned(core, command):
    return ["taskset", "-c", str(core), *map(str, command)]


class Process:
    """One running program; `command` is made from its folder, its port and its configuration."""

    def __init__(self, name, command, template=None, core=PROXY_CORE, values=(), environment=()):
        self.name, self.port = name, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
        self.folder.chmod(0o755)
        self.configuration = self.folder / (template or "none")
        if template:
            text = (HERE / "peers" / template).read_text()
            known = {"PORT": self.port, "DIR": self.folder, "ADMIN": free_port(), "KEYS": keys_file(self.folder), **dict(values)}
            self.configuration.write_text(re.sub(r"@([A-Z_]+)@", lambda match: str(known[match[1]]), text))
        with open(self.folder / "log", "w") as log:
            self.child = subprocess.Popen(
                pinned(core, command(self)), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "HOME": str(self.folder), **dict(environment)},
            )
        self.wait_until_ready()

    def wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while self.child.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        self.child.kill()
        raise SystemExit(f"{self.name} did not start:\n" + (self.folder / "log").read_text()[-2000:])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/api/x"

    def tree(self):
        found, left = [], [self.child.pid]
        while left:
            process = left.pop()
            found.append(process)
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    left += map(int, children.read_text().split())
        return found

    def cpu_us(self):
        """Time on a core of all its threads, in user and kernel."""
        nanoseconds = 0
        for process in self.tree():
            for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):
                    nanoseconds += int(thread.read_text().split()[0])
        return nanoseconds / 1000

    def rss_kib(self):
        """What it alone holds of memory, shared pages by their share."""
        kib = 0
        for process in self.tree():
            with contextlib.suppress(OSError, TypeError):
                kib += int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.M)[1])
        return kib

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def nginx(process):
    return [find("nginx", "/usr/sbin"), "-p", process.folder, "-c", process.configuration]


def upstream():
    return Process("upstream", nginx, "upstream.conf", core=LOAD_CORE)


def gateway(binary):
    return lambda process: [binary, "run", "-c", process.configuration]


def values(behind, denied=False, store='backend = "memory"'):
    """What the templates are filled with; `denied`: nothing fits after the first request."""
    return {
        "UPSTREAM": behind.port,
        "COUNT": 1 if denied else HUGE,
        "NGINX_RATE": "1r/m" if denied else "1000000r/s",
        "NGINX_BURST": "" if denied else "burst=1000000 nodelay",
        "STORE": store,
    }


def busy_us():
    """Time that all cores of the machine were at work."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) * 1e6 / os.sysconf("SC_CLK_TCK")


def children_us():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e6


def wrk(process, seconds, connections=64):
    """As many requests as it can answer; the count, requests a second, and how many were not 2xx."""
    command = [find("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", HERE / "load.lua", process.url]
    out = subprocess.run(pinned(LOAD_CORE, command), capture_output=True, text=True, timeout=seconds + 60).stdout
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    errors = re.search(r"Socket errors: (.*)", out)
    return {
        "n": int(re.search(r"(\d+) requests in", out)[1]),
        "rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "refused": int(refused[1]) if refused else 0,
        "errors": errors[1] if errors else "",
    }
