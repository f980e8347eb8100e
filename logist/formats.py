"""The version of each file format that Logist writes: the only place where these numbers are.

Raise a number only if an earlier Logist would misread the file. New optional fields and new words need no new number:
earlier versions keep what they don't know (`core/history/newer_versions.py`).

A version that raises the number of the job writes it to `state.json` before anything else of the job has the new form,
so that an earlier Logist refuses the job from then on. It reads all earlier numbers; a job without a number has format 1.
"""

from __future__ import annotations

from logist.quick_tuple import NamedTuple
from logist.version import __version__

UPGRADE = "use the version of Logist that wrote it, or a newer one"


class FileFormat(NamedTuple):
    """One format: its version, and what tells a file's version."""

    name: str
    version: int
    files: str
    recorded_in: str
    """Where a file has its version; a file without it has version 1."""
    if_newer: str
    """What Logist does with a file of a newer version."""


REFUSES = "refuses it (8); changes nothing"
MAKES_ANEW = "ignores it and creates it again"
ITS_JOB = "`version` in `state.json`: part of the job"

JOB = FileFormat(
    "job",
    1,
    "the job directory: `state.json`, `jobHistory.json` and its segments, `workflow.json`, `logs/`, `git/`",
    "`version` in `state.json`, in each interaction and in the first line of `jobHistory.json`",
    REFUSES,
)
JOB_SPEC = FileFormat("job spec", 1, "`job.yaml`", ITS_JOB, REFUSES)
EXCHANGE = FileFormat("exchange", 1, "`inflight/`, `restoring`", ITS_JOB, REFUSES)
NOTE = FileFormat("note", 1, "`provider-wait.json`, `snooze.json`, `setup.json`, `lock`", ITS_JOB, REFUSES)
LEDGER = FileFormat("ledger", 1, "`ledger/ledger.json` and its segments", "its first line", REFUSES)
RUN_RECORD = FileFormat("run record", 1, "`runs/`", "its first line", "reads what it knows")
CALL_RATES = FileFormat("call rates", 1, "`rates/state.json`", "`version`", MAKES_ANEW)
STAMPS = FileFormat("stamps", 2, "`git/logist-stamps`", "its first line", MAKES_ANEW)
INDEX = FileFormat("index", 6, "`jobs/.index/`", "the file `identity` in it", MAKES_ANEW)
WORDS = FileFormat("words", 3, "`jobs/.words/`", "the first line of each file", MAKES_ANEW)
SETUP_COPY = FileFormat(
    "setup copy", 1, "`jobs/.setup/`", "the name of each copy, which is a hash", MAKES_ANEW
)
PACK = FileFormat("pack", 1, "files of `job pack`", "`version` in its first member", REFUSES)
FIXTURE = FileFormat("fixture", 1, "`fixture.json` of `job export`", "`fixture`", REFUSES)
DATASET = FileFormat("dataset", 1, "lines of `job export --dataset`", "`dataset` in each line", "reads none")
NOTIFICATION = FileFormat("notification", 1, "the JSON for hooks", "`version`", "reads none")
CONFIG = FileFormat("config", 1, "`config.yaml`", "none: always the newest", "names the unknown key (5)")
ROLE = FileFormat("role", 1, "`roles/`", "none: always the newest", "warns about what it doesn't know")
WORKFLOW = FileFormat(
    "workflow", 1, "`workflows/`", "none: always the newest", "warns about what it doesn't know"
)

FORMATS = (
    JOB,
    JOB_SPEC,
    EXCHANGE,
    NOTE,
    LEDGER,
    RUN_RECORD,
    CALL_RATES,
    STAMPS,
    INDEX,
    WORDS,
    SETUP_COPY,
    PACK,
    FIXTURE,
    DATASET,
    NOTIFICATION,
    CONFIG,
    ROLE,
    WORKFLOW,
)


def is_newer(version: object, known: FileFormat = JOB) -> bool:
    """Return whether this Logist can't read a recorded version; it reads all earlier ones."""
    return not isinstance(version, int) or not 1 <= version <= known.version


def describe_newer(what: str, version: object, writer: object = None, known: FileFormat = JOB) -> str:
    """Return the message about a file of a newer version. `writer`: the version of Logist that it names, if any."""
    by = f"Logist {writer[:40]}" if isinstance(writer, str) and writer else "a newer Logist"
    shown = version if isinstance(version, int) else repr(version)[:40]
    return (
        f"{what} was written by {by} ({known.name} format {shown}); "
        f"this Logist {__version__} reads up to format {known.version}"
    )
