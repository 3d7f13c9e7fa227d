#!/usr/bin/env python3
"""The whole gateway beside its peers: interleaved rounds on one machine, medians, ratios within a round.

  compare.py                                  every scene, every peer that is there
  compare.py --scene allowed --rounds 3       less of it
  compare.py --gateway new=PATH               another build of the gateway too

One peer is loaded at a time, each keeps its connections, and the order rotates from round to round, so that what else
happens on the machine meets all of them. What is compared is CPU time a request, read from the scheduler; requests a
second and latencies tell as much of the load generator and of the neighbours.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import lab
import plot
from lab import HERE, ROOT

TARGET = ROOT / "target"
BARE = TARGET / "bare"
GATEWAY = TARGET / "release" / "sluicegate"
GUIDED = TARGET / "guided" / "sluicegate"
TOOLS = TARGET / "tools" / "bin"
SCENES = ["allowed", "denied", "paced"]
# What is to be reached, as (of, beside, scene, measure, text).
GOALS = [
    ("gateway", "bare", "allowed", "cpu_us", "CPU, allowed, beside bare Pingora, same build"),
    ("gateway", "bare-default", "allowed", "cpu_us", "CPU, allowed, beside bare Pingora as Cargo builds it"),
    ("guided", "bare-default", "allowed", "cpu_us", "CPU, allowed, guided build, beside bare Pingora as Cargo builds it"),
    ("gateway", "nginx", "allowed", "cpu_us", "CPU, allowed, beside nginx"),
    ("guided", "nginx", "allowed", "cpu_us", "CPU, allowed, guided build, beside nginx"),
    ("guided", "envoy", "allowed", "cpu_us", "CPU, allowed, guided build, beside Envoy"),
    ("gateway", "envoy", "allowed", "cpu_us", "CPU, allowed, beside Envoy"),
    ("gateway", "nginx", "denied", "cpu_us", "CPU, denied, beside nginx"),
    ("guided", "nginx", "denied", "cpu_us", "CPU, denied, guided build, beside nginx"),
    ("gateway", "gateway-none", "allowed", "cpu_us", "CPU, all limits beside none"),
    ("guided", "guided-none", "allowed", "cpu_us", "CPU, all limits beside none, guided build"),
    ("gateway", "nginx", "paced", "p50_us", "p50 at a steady rate beside nginx"),
    ("guided", "nginx", "paced", "p50_us", "p50 at a steady rate, guided build, beside nginx"),
    ("gateway", "bare", "paced", "p99_us", "p99 at a steady rate beside bare Pingora"),
    ("guided", "bare", "paced", "p99_us", "p99 at a steady rate, guided build, beside bare Pingora"),
]


class Peer:
    def __init__(self, name, text, command, template=None, scenes=SCENES, missing=None):
        self.name, self.text, self.command, self.template = name, text, command, template
        self.scenes, self.missing = scenes, missing

    def start(self, behind, scene):
        values = lab.values(behind, denied=scene == "denied")
        command = self.command
        if self.template is None:
            command = lambda process: [self.command, f"127.0.0.1:{process.port}", f"127.0.0.1:{behind.port}"]
        return lab.Process(self.name, command, self.template, values=values)


def gateways(extra):
    """Each build of the gateway, with all limits and with none."""
    builds = [("gateway", "gateway", GATEWAY), ("guided", "gateway, guided build", GUIDED)]
    builds += [(name, f"gateway, {name}", Path(path)) for name, _, path in (text.partition("=") for text in extra)]
    for name, text, path in builds:
        missing = None if path.exists() else f"{path} is not there"
        yield Peer(name, f"{text}, all limits", lab.gateway(path), "limits.toml", missing=missing)
        yield Peer(f"{name}-none", f"{text}, no limits", lab.gateway(path), "none.toml", ["allowed"], missing)


def peers(extra):
    nginx, envoy = lab.find("nginx", "/usr/sbin"), lab.find("envoy", TOOLS)
    start_envoy = lambda process: [
        envoy, "-c", process.configuration, "--concurrency", 1, "-l", "critical", "--disable-hot-restart",
    ]
    bare = [("bare", "bare Pingora, same build", "same"), ("bare-default", "bare Pingora, as Cargo builds it", "release")]
    for name, text, profile in bare:
        path = BARE / profile / "bare"
        yield Peer(name, text, path, scenes=["allowed", "paced"], missing=None if path.exists() else f"{path} is not there")
    yield Peer("nginx", "nginx, two limits", lab.nginx, "nginx.conf", missing=None if nginx else "nginx is not installed")
    yield Peer("envoy", "Envoy, two limits", start_envoy, "envoy.yaml", missing=None if envoy else "no envoy: `make release-tools`")
    yield from gateways(extra)


def pace(process, options):
    command = [BARE / "same" / "pace", process.port, options.rate, options.seconds, options.connections]
    out = subprocess.run(lab.pinned(lab.LOAD_CORE, command), capture_output=True, text=True, timeout=options.seconds + 60)
    got = json.loads(out.stdout or sys.exit(f"{process.name}: {out.stderr}"))
    return {**got, "refused": got["bad"], "errors": ""}


def measure(process, behind, scene, options):
    def ours():
        return process.cpu_us() + behind.cpu_us() + lab.children_us()

    busy, own, cpu, started = lab.busy_us(), ours(), process.cpu_us(), time.monotonic()
    got = pace(process, options) if scene == "paced" else lab.wrk(process, options.seconds, options.connections)
    took = (time.monotonic() - started) * 1e6
    got["cpu_us"] = (process.cpu_us() - cpu) / max(got["n"], 1)
    got["foreign"] = max(0, (lab.busy_us() - busy) - (ours() - own)) / took
    got["rss_kib"] = process.rss_kib()
    share = got["refused"] / max(got["n"], 1)
    if got["errors"] or (share < 0.99 if scene == "denied" else share > 0):
        sys.exit(f"{process.name}, {scene}: not the answers that were to be measured: {got}")
    return got


def run(scene, chosen, options):
    """Samples by peer, one a round."""
    samples, processes = {}, []
    behind = lab.upstream()
    try:
        for peer in chosen:
            process = peer.start(behind, scene)
            processes.append((peer.name, process))
            lab.wrk(process, 1, options.connections)
        for turn in range(options.rounds):
            shift = turn % len(processes)
            for name, process in processes[shift:] + processes[:shift]:
                samples.setdefault(name, []).append(measure(process, behind, scene, options))
            print(f"{scene}: round {turn + 1} of {options.rounds}", file=sys.stderr)
    finally:
        for process in [behind, *(process for _, process in processes)]:
            process.stop()
    return samples


def middle(samples, measure):
    return statistics.median(sample[measure] for sample in samples)


def ratio(of, beside, measure):
    """The median over the rounds of the ratio within each, and its range."""
    ratios = [one[measure] / other[measure] for one, other in zip(of, beside) if other[measure]]
    return statistics.median(ratios), min(ratios), max(ratios)


def table(scene, samples, texts, options):
    columns = ["cpu_us", "rps", "rss_kib"] if scene != "paced" else ["cpu_us", "p50_us", "p99_us", "rss_kib"]
    heads = {"cpu_us": "CPU µs a request", "rps": "requests/s", "rss_kib": "memory KiB", "p50_us": "p50 µs", "p99_us": "p99 µs"}
    titles = {"allowed": "Allowed", "denied": "Denied (429)", "paced": f"{options.rate} requests/s"}
    rows = [f"\n### {titles[scene]}\n", "| | " + " | ".join(heads[column] for column in columns) + " |"]
    rows.append("|---|" + "---:|" * len(columns))
    for name, taken in samples.items():
        cells = [f"{middle(taken, column):.{1 if column == 'cpu_us' else 0}f}" for column in columns]
        rows.append(f"| {texts[name]} | " + " | ".join(cells) + " |")
    return rows


def goals(samples):
    rows = ["\n### Ratios\n", "| | median | range |", "|---|---:|---:|"]
    for of, beside, scene, measure, text in GOALS:
        taken = samples.get(scene, {})
        if of in taken and beside in taken:
            median, least, most = ratio(taken[of], taken[beside], measure)
            rows.append(f"| {text} | {median:.2f} | {least:.2f}–{most:.2f} |")
    return rows


def version(*command):
    out = subprocess.run(command, capture_output=True, text=True)
    return (out.stdout + out.stderr).strip().split("\n")[0]


def conditions(samples, options):
    foreign = statistics.median(sample["foreign"] for scene in samples.values() for taken in scene.values() for sample in taken)
    pingora = next(package["version"] for package in packages(ROOT) if package["name"] == "pingora")
    parts = [
        f"{options.rounds} rounds of {options.seconds} s, {options.connections} connections, one worker on one core",
        f"{os.cpu_count()} cores, {cpu_model()}, Linux {platform.release()}",
        f"load {os.getloadavg()[0]:.1f}; others on the machine took {foreign:.2f} of a core in the median",
        f"Pingora {pingora}; {version('rustc', '--version')}; {version(lab.find('nginx', '/usr/sbin'), '-v')}",
        f"Envoy {version(lab.find('envoy', TOOLS), '--version').rpartition('version: ')[2]}" if lab.find("envoy", TOOLS) else "no Envoy",
    ]
    return ["\n### Conditions\n", *(f"- {part}" for part in parts)]


def cpu_model():
    lines = Path("/proc/cpuinfo").read_text().split("\n")
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def packages(folder):
    return tomllib.loads((folder / "Cargo.lock").read_text())["package"]


def check_versions():
    """The bare proxy is worth comparing with only when it is made of the same crates."""
    ours = {(package["name"], package["version"]) for package in packages(ROOT)}
    own = [(package["name"], package["version"]) for package in packages(HERE / "bare") if "source" in package]
    others = [name for name, number in own if (name, number) not in ours]
    if others:
        sys.exit(f"bare/Cargo.lock has other versions than the gateway's: {', '.join(others)}: copy the gateway's over it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", action="append", choices=SCENES)
    parser.add_argument("--peer", action="append", help="only these; the default is every peer that is there")
    parser.add_argument("--gateway", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--plot", help="an SVG of the CPU time a request")
    options = parser.parse_args()
    check_versions()
    every = [peer for peer in peers(options.gateway) if not options.peer or peer.name in options.peer]
    for peer in every:
        if peer.missing:
            print(f"skipped: {peer.text}: {peer.missing}", file=sys.stderr)
    present = [peer for peer in every if not peer.missing]
    texts = {peer.name: peer.text for peer in present}
    samples, rows = {}, []
    for scene in options.scene or SCENES:
        chosen = [peer for peer in present if scene in peer.scenes]
        samples[scene] = run(scene, chosen, options)
        rows += table(scene, samples[scene], texts, options)
    print("\n".join(rows + goals(samples) + conditions(samples, options)))
    if options.plot:
        bars = [(texts[name], middle(taken, "cpu_us")) for name, taken in samples.get("allowed", {}).items()]
        Path(options.plot).write_text(plot.bars("CPU µs a request, allowed", bars))


if __name__ == "__main__":
    main()
