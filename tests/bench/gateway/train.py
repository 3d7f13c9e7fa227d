#!/usr/bin/env python3
"""The load that a guided build learns from: seconds of each kind of traffic through an instrumented gateway.

  train.py BINARY

Allowed and denied requests in memory, allowed and denied ones over Redis, the same over HTTP/2, no limits at all. What is
trained is what is to be fast; everything else is compiled for size, so a kind of traffic that is left out gets slower.
"""

import subprocess
import sys
from pathlib import Path

import lab

SECONDS = 4
# An HTTP/2 client's connections and streams.
CLIENTS, STREAMS, REQUESTS = 8, 16, 40_000


def h2load(process):
    key = f"key-{7:016}"
    command = ["h2load", "-n", REQUESTS, "-c", CLIENTS, "-m", STREAMS, "-H", f"X-API-Key: {key}", process.url]
    subprocess.run(lab.pinned(lab.LOAD_CORE, command), check=True, stdout=subprocess.DEVNULL, timeout=300)


def redis():
    def command(process):
        return [
            lab.find("redis-server"), "--port", process.port, "--save", "", "--appendonly", "no", "--dir", process.folder,
            "--bind", "127.0.0.1",
        ]

    return lab.Process("redis", command, core=lab.LOAD_CORE)


def traffic(binary, template, behind, denied, store):
    """One gateway from its start to its end, which is when it writes down what it did."""
    process = lab.Process("training", lab.gateway(binary), template, values=lab.values(behind, denied, store))
    try:
        got = lab.wrk(process, SECONDS)
        h2load(process)
    finally:
        process.stop()
    if got["errors"] or (got["refused"] < 0.99 * got["n"] if denied else got["refused"]):
        sys.exit(f"{template}, denied {denied}: not the traffic that was to be trained: {got}")


def main():
    binary = Path(sys.argv[1]).resolve()
    behind = lab.upstream()
    shared = redis()
    stores = ['backend = "memory"', f'backend = "redis"\nredis = {{ urls = ["redis://127.0.0.1:{shared.port}/0"], timeout = "2s" }}']
    try:
        traffic(binary, "none.toml", behind, False, stores[0])
        for store in stores:
            for denied in (False, True):
                traffic(binary, "limits.toml", behind, denied, store)
    finally:
        shared.stop()
        behind.stop()


if __name__ == "__main__":
    main()
