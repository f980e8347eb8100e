"""Logist beside other programs: start-up, a step, an appended record, replay, listings, model calls, and kills, in one run.

Run: python benchmarks/peers.py [--only step replay] [--peers langgraph claude] [--quick] [--record] [--folder DIRECTORY]

Each peer is installed at a pinned version in an environment of its own, `.venv-peers/NAME`; one that can't be installed is
named with the reason. Everything is measured on this machine; models are servers on 127.0.0.1, and keys are dummies.
`--record` writes the tables to docs/comparison.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable
from ctypes import CDLL
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import calls
from peers_commands import table_commands, table_listings, table_starts
from peers_install import PEERS, Installed, Missing, add_options, install_peers
from peers_killed import TABLES as KILL_TABLES
from peers_killed import kill_tables
from peers_tables import Table, describe_run, print_run, print_tables, record_tables
from peers_turns import Lab, table_appends, table_calls, table_replays, table_steps

from logist.version import __version__
from tests.endpoint import Endpoint
from tests.jobs.bench import command

TABLES: dict[str, Callable[[Lab], Table]] = {
    "startup": table_starts,
    "step": table_steps,
    "command": table_commands,
    "append": table_appends,
    "replay": table_replays,
    "listing": table_listings,
    "call": table_calls,
}


def main() -> None:
    options = build_parser().parse_args()
    if CDLL(None).prctl(calls.SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("prctl failed: the CPU of couriers would not be counted")
    peers = install_peers(options.peers, options.place)
    for name, reason in peers.items():
        if isinstance(reason, Missing):
            print(f"{PEERS[name].title} is left out: {reason}", file=sys.stderr)
    there = {name: peer for name, peer in peers.items() if isinstance(peer, Installed)}
    versions = {"Logist": f"Logist {__version__}", **{peer.title: peer.versions for peer in there.values()}}
    missing = {
        PEERS[name].title: str(reason) for name, reason in peers.items() if isinstance(reason, Missing)
    }
    for table in measure_tables(options, there):  # what is measured is kept, even if a later table is not
        run = describe_run(versions, missing)
        print_tables([table])
        if options.record:
            record_tables([table], run)
    print_run(describe_run(versions, missing))


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument(
        "--only", nargs="*", choices=[*TABLES, *KILL_TABLES], default=[*TABLES, *KILL_TABLES], metavar="TABLE"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter measurements, for a first look"
    )
    parser.add_argument("--record", action="store_true", help="write the tables to docs/comparison.md")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="a directory on the disk"
    )
    return parser


def measure_tables(options: argparse.Namespace, peers: dict[str, Installed]) -> Iterable[Table]:
    """The wanted tables, one after the other."""
    text = command("RETRY", summary="Again. " * 30)
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        Endpoint({"text": text, "usage": {"input": 10, "output": 10}}) as endpoint,
    ):
        lab = Lab(peers, Path(folder), endpoint.url, quick=options.quick)
        yield from (make(lab) for name, make in TABLES.items() if name in options.only)
    for name in KILL_TABLES:
        if name in options.only:
            yield from kill_tables(peers, only=[name], quick=options.quick)


if __name__ == "__main__":
    main()
