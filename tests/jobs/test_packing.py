"""Packing a job into a file and unpacking it: everything survives, and a hostile file does nothing."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.core.model import Kind, Status
from logist.errors import Busy, Damaged, Refused
from logist.jobs.archive import job_pack
from logist.jobs.archive.job_pack import FIRST, LAST, pack_job, unpack_job
from logist.jobs.base import job_reader
from logist.jobs.base.session import open_session
from logist.jobs.steward.steward_decisions import record_decision
from tests import support
from tests.jobs.bench import Bench, answer
from tests.jobs.conftest import MakeBench
from tests.jobs.test_recovery import in_flight

WORK = {"b.txt": "b\n", "sub/run.sh": "echo\n", "Größe \u2028.txt": "x"}


@pytest.fixture
def b(bench: MakeBench) -> Bench:
    """A job after a step, with what an agent may leave in a workspace."""
    b = bench([answer(files=WORK), answer()])
    b.create()
    b.step()
    os.chmod(b.workspace() / "sub" / "run.sh", 0o755)
    os.symlink("b.txt", b.workspace() / "inside")
    os.symlink("../b.txt", b.workspace() / "sub" / "inside")
    (b.workspace() / "empty").mkdir()
    (b.workspace() / os.fsdecode(b"bytes-\xff")).write_bytes(b"\0" * 70_000)
    return b


def contents(b: Bench) -> dict[str, bytes]:
    """The files that are packed; git's caches and the lock are not."""
    return {
        name: data
        for name, data in b.files().items()
        if name != "lock" and not name.startswith("git/logist-")
    }


def test_a_job_goes_on_where_it_is_unpacked(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    before = contents(b)
    packed = pack_job(b.project, "j", tmp_path / "j.tar.gz")
    assert (packed.revision, packed.left_out, packed.path.stat().st_mode & 0o777) == (2, (), 0o600)
    assert contents(b) == before
    other = bench([answer(files=WORK), answer()])
    unpacked = unpack_job(other.project, packed.path)
    assert contents(other) == before
    assert (unpacked.state, unpacked.left_out) == (b.state(), ())
    assert os.readlink(other.workspace() / "sub" / "inside") == "../b.txt"
    assert (other.workspace() / "empty").is_dir()
    assert os.access(other.workspace() / "sub" / "run.sh", os.X_OK)
    edits = job_reader.verify_job(other.project, unpacked.job).edits
    assert edits is not None
    assert {change.kind for change in edits.changes} <= {"created", "mode"}
    assert other.run().state.status is Status.APPROVAL_REQUIRED
    assert pack_job(other.project, "j", tmp_path / "again.tar.gz").revision == 3


def test_the_same_job_gives_the_same_file(b: Bench, tmp_path: Path) -> None:
    first, second = (pack_job(b.project, "j", tmp_path / name).path.read_bytes() for name in ("one", "two"))
    assert first == second


def test_a_long_history_is_packed_with_its_segments(bench: MakeBench, tmp_path: Path) -> None:
    b = bench(settings={"history": {"rotate_at": 2000}})
    b.create()
    for _ in range(4):
        record_decision(b.project, "j", Kind.SUSPEND)
        record_decision(b.project, "j", Kind.RESUME)
    assert list(b.folder().glob("jobHistory.*.json.gz"))
    pack_job(b.project, "j", tmp_path / "j.tar.gz")
    other = bench()
    assert unpack_job(other.project, tmp_path / "j.tar.gz").state.revision == 9


def test_what_is_no_file_is_left_out(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    os.mkfifo(b.workspace() / "pipe")
    os.symlink("/etc/passwd", b.workspace() / "absolute")
    os.symlink("../../state.json", b.workspace() / "sub" / "above")
    packed = pack_job(b.project, "j", tmp_path / "j.tar.gz")
    assert packed.left_out == ("workspace/pipe",)
    other = bench()
    unpacked = unpack_job(other.project, packed.path)
    assert unpacked.left_out == ("workspace/absolute", "workspace/sub/above")
    assert not os.path.lexists(other.workspace() / "absolute")


def test_only_a_job_at_rest_is_packed(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    with open_session(b.project, "j", "job step"), pytest.raises(Busy):
        pack_job(b.project, "j", tmp_path / "x")
    with pytest.raises(Refused, match="into its own directory"):
        pack_job(b.project, "j", b.workspace() / "x")
    other = bench()
    in_flight(other, "an answer")
    with pytest.raises(Refused, match="not recorded yet"):
        pack_job(other.project, "j", tmp_path / "x")
    shutil.rmtree(other.folder() / "inflight")
    assert list(tmp_path.glob("x*")) == []


def test_a_damaged_job_is_not_packed(b: Bench, tmp_path: Path) -> None:
    history = b.folder() / "jobHistory.json"
    kept = history.read_bytes()
    history.write_bytes(kept.replace(b"Do it.", b"Do xx."))
    with pytest.raises(Damaged):
        pack_job(b.project, "j", tmp_path / "x")
    history.write_bytes(kept)
    assert not (tmp_path / "x").exists()


def test_an_existing_job_is_never_overwritten(b: Bench, tmp_path: Path) -> None:
    packed = pack_job(b.project, "j", tmp_path / "j.tar.gz")
    before = b.files()
    with pytest.raises(Refused, match="already exists"):
        unpack_job(b.project, packed.path)
    with pytest.raises(Refused, match="already exists"):
        pack_job(b.project, "j", packed.path)
    assert b.files() == before


def test_every_cut_is_noticed(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    whole = pack_job(b.project, "j", tmp_path / "j.tar.gz").path.read_bytes()
    other = bench()
    for cut in (*range(0, len(whole), max(1, len(whole) // 25)), len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(Damaged):
            unpack_job(other.project, tmp_path / "cut")
    for place in range(10, len(whole), max(1, len(whole) // 25)):
        changed = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(Damaged):
            unpack_job(other.project, tmp_path / "changed")
    assert list(other.project.jobs_dir.iterdir()) == []


Member = tuple[tarfile.TarInfo, bytes]


def read_members(path: Path) -> list[Member]:
    with tarfile.open(path) as tar:
        return [(info, _read_content(tar, info)) for info in tar]


def _read_content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(info) if info.isreg() else None
    return content.read() if content else b""


def write_members(path: Path, members: list[Member]) -> None:
    """A pack with these members, and the digest that belongs to them."""
    digest = job_pack._Digest()
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            if info.name == LAST:
                data = digest.hash.hexdigest().encode()
                info.size = len(data)
            elif info.name != FIRST:
                kind = "link" if info.issym() else "directory" if info.isdir() else "file"
                digest.add(
                    kind, info.name, {"link": info.linkname, "directory": "", "file": f"{info.mode:o}"}[kind]
                )
                digest.add_content(data)
            tar.addfile(info, io.BytesIO(data))


def make(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> list[Member]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(data), link, 0o644
    return [(info, data)]


HOSTILE: dict[str, Callable[[Path], list[Member]]] = {
    "an absolute path": lambda outside: make(str(outside / "x")),
    "a way up": lambda outside: make("j/workspace/../../../x"),
    "another job": lambda outside: make("k/job.yaml"),
    "the job itself": lambda outside: make("j", tarfile.DIRTYPE),
    "an empty name": lambda outside: make("j//x"),
    "a link out of the job": lambda outside: make("j/logs/x", tarfile.SYMTYPE, link=str(outside)),
    "a link in the place of the history": lambda outside: make(
        "j/attachments", tarfile.SYMTYPE, link=str(outside)
    ),
    "a hard link": lambda outside: make("j/workspace/hard", tarfile.LNKTYPE, link="j/state.json"),
    "a device": lambda outside: make("j/workspace/device", tarfile.CHRTYPE),
    "a pipe": lambda outside: make("j/workspace/pipe", tarfile.FIFOTYPE),
    "a sparse file": lambda outside: make("j/workspace/sparse", tarfile.GNUTYPE_SPARSE),
    "a file through a link": lambda outside: [
        *make("j/workspace/dir", tarfile.SYMTYPE, link="sub"),
        *make("j/workspace/dir/x"),
    ],
    "a file twice": lambda outside: make("j/state.json", data=b"{}"),
    "a file below a file": lambda outside: make("j/job.yaml/x"),
    "a call in flight": lambda outside: make("j/inflight", tarfile.DIRTYPE),
    "a lock": lambda outside: make("j/lock"),
    "a hidden file": lambda outside: make("j/.x"),
    "a hook of git": lambda outside: make("j/git/hooks/post-commit", data=b"#!/bin/sh\n"),
    "a way to other objects": lambda outside: make("j/git/objects/info/alternates", data=b"/x\n"),
    "attributes of git": lambda outside: make("j/git/info/attributes", data=b"* filter=x\n"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_does_nothing(b: Bench, bench: MakeBench, tmp_path: Path, what: str) -> None:
    packed = pack_job(b.project, "j", tmp_path / "j.tar.gz")
    members = read_members(packed.path)
    outside = tmp_path / "outside"
    outside.mkdir()
    write_members(tmp_path / "evil.tar.gz", [*members[:-1], *HOSTILE[what](outside), members[-1]])
    other = bench()
    before = support.tree(tmp_path)
    with pytest.raises(Damaged):
        unpack_job(other.project, tmp_path / "evil.tar.gz")
    assert list(other.project.jobs_dir.iterdir()) == []
    shutil.rmtree(other.project.home)
    other.project.home.mkdir()
    assert set(support.tree(tmp_path)) - set(before) <= set()
    assert list(outside.iterdir()) == []


def replaced(members: list[Member], name: str, change: Callable[[bytes], bytes]) -> list[Member]:
    result = []
    for info, data in members:
        if info.name == name:
            data = change(data)
            info.size = len(data)
        result.append((info, data))
    return result


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("j/jobHistory.json", b"Do it.", b"Do xx."),
        ("j/state.json", b"PENDING", b"SUCCESS"),
        ("j/git/config", b"[core]\n", b"[core]\n\tsshCommand = touch x\n"),
        (FIRST, b'"version": 1', b'"version": 2'),
        (FIRST, b'"job": "j"', b'"job": "../j"'),
        (FIRST, b"{", b"["),
    ],
)
def test_a_changed_job_is_not_unpacked(
    bench: MakeBench, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    b = bench()
    b.create()
    members = read_members(pack_job(b.project, "j", tmp_path / "j.tar.gz").path)
    assert any(old in data for info, data in members if info.name == name)
    write_members(tmp_path / "x.tar.gz", replaced(members, name, lambda data: data.replace(old, new)))
    other = bench()
    with pytest.raises((Damaged, Refused)):
        unpack_job(other.project, tmp_path / "x.tar.gz")
    assert not other.project.jobs_dir.exists() or list(other.project.jobs_dir.iterdir()) == []


def test_a_bomb_stops_early(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    packed = pack_job(b.project, "j", tmp_path / "j.tar.gz")
    members = read_members(packed.path)
    large = make("j/workspace/large", data=bytes(50_000_000))
    write_members(tmp_path / "bomb.tar.gz", [*members[:-1], *large, members[-1]])
    other = bench()
    with pytest.raises(Refused, match="more than 10,000,000 bytes"):
        unpack_job(other.project, tmp_path / "bomb.tar.gz", max_bytes=10_000_000)
    assert list(other.project.jobs_dir.iterdir()) == []
    assert unpack_job(other.project, tmp_path / "bomb.tar.gz", max_bytes=60_000_000).files > 0


def test_a_huge_header_is_not_read_into_memory(bench: MakeBench, tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, (1 << 33) - 1
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + bytes(5000)))
    with pytest.raises(Damaged):
        unpack_job(bench().project, tmp_path / "x.tar.gz")


def extend(name: str, data: bytes = b"", **pax: str) -> bytes:
    """A member after an extended header, as no other program writes it."""
    header: bytes = tarfile.TarInfo._create_pax_generic_header(pax, tarfile.XHDTYPE, "utf-8")  # type: ignore[attr-defined]
    return header + make(name, data=data)[0][0].tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


HOSTILE_HEADERS = {
    "a negative size": extend("j/a", b"hi", size="-5"),
    "a size that is too large": extend("j/a", b"hi", size="9" * 30),
    "a time that is none": extend("j/a", b"hi", mtime="nan"),
    "headers of headers": extend("j/a", a="b")[:1024] * 3000 + extend("j/a"),
    "a map that fills the memory": extend(
        "j/a",
        b"9999999\n" + b"1\n" * 5_000_000,
        **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"},
    ),
}


@pytest.mark.parametrize("what", HOSTILE_HEADERS)
def test_hostile_headers_are_reported(bench: MakeBench, tmp_path: Path, what: str) -> None:
    first = json.dumps({"version": 1, "job": "j"}).encode()
    start = make(FIRST, data=first)[0][0].tobuf(tarfile.USTAR_FORMAT) + first + bytes(-len(first) % 512)
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(start + HOSTILE_HEADERS[what] + bytes(1024), 1))
    b = bench()
    tracemalloc.start()
    try:
        with pytest.raises(Damaged):
            unpack_job(b.project, tmp_path / "x.tar.gz")
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert list(b.project.jobs_dir.iterdir()) == []


def test_a_killed_unpacking_leaves_no_job(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    pack_job(b.project, "j", tmp_path / "j.tar.gz")
    other = bench()
    left = other.project.jobs_dir / ".new-j-0123456789ab"
    left.mkdir(parents=True)
    (left / "state.json").write_text("{}")
    unpack_job(other.project, tmp_path / "j.tar.gz")
    assert [path.name for path in other.project.jobs_dir.iterdir()] == ["j"]


def test_programs_in_the_git_of_the_workspace_are_removed(b: Bench, bench: MakeBench, tmp_path: Path) -> None:
    git = b.workspace() / ".git"
    (git / "hooks").mkdir()
    (git / "hooks" / "post-checkout").write_text("#!/bin/sh\n")
    (git / "config").write_text("[core]\n\tfsmonitor = touch x\n")
    pack_job(b.project, "j", tmp_path / "j.tar.gz")
    other = bench()
    unpack_job(other.project, tmp_path / "j.tar.gz")
    assert not (other.workspace() / ".git" / "hooks").exists()
    assert "fsmonitor" not in (other.workspace() / ".git" / "config").read_text()


def test_the_first_member_says_what_it_is(b: Bench, tmp_path: Path) -> None:
    (info, data), *_ = read_members(pack_job(b.project, "j", tmp_path / "j.tar.gz").path)
    first = json.loads(data)
    assert (info.name, first["version"], first["job"], first["revision"]) == (FIRST, 1, "j", 2)
