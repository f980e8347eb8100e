"""Modules are loaded when they are first used, once, also by several threads and after a failure."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from logist.lazy_modules import clean_text
from tests.support import process_environment

PACKAGE = """
from logist.lazy_modules import load_on_use

load_on_use(globals(), {"inner": ("PUBLIC",)})
"""
INNER = """
import time

print("loaded")
time.sleep(0.2)
PUBLIC = 5


def add(number):
    return number + PUBLIC
"""
BROKEN = """
import os

if not os.environ.pop("FIXED", None):
    os.environ["FIXED"] = "1"
    raise KeyboardInterrupt
VALUE = 7
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("from package import inner", ""),
        ("from package import inner; print(inner.add(1), inner.add(2))", "loaded\n6 7\n"),
        ("from package import inner as a; import package.inner as b; print(a is b, a.PUBLIC)", "loaded\nTrue 5\n"),
        ("import package; print(package.PUBLIC)", "loaded\n5\n"),
        ("from package import PUBLIC; print(PUBLIC)", "loaded\n5\n"),
        ("from package import inner; inner.PUBLIC = 1; import package.inner as b; print(b.add(1))", "loaded\n2\n"),
        ("from package import inner; print('add' in vars(inner), inner.__file__[-8:])", "loaded\nTrue inner.py\n"),
        ("from package import inner; print(inner.__file__[-8:])", "inner.py\n"),
        ("from package import inner; print(type(inner.add), type(inner).__name__)", "loaded\n<class 'function'> module\n"),
        ("from package.below import deep; print(deep.NAME)", "package.below.deep\n"),
        ("from package import below; print(below.deep.NAME)", "package.below.deep\n"),
        ("from logist.lazy_modules import load_all; from package import inner; load_all(); print(1)", "loaded\n1\n"),
    ],
)  # fmt: skip
def test_a_module_is_loaded_once_when_it_is_used(tmp_path: Path, code: str, printed: str) -> None:
    assert run(tmp_path, code) == printed


@pytest.mark.parametrize("code", ["from package import missing", "import package; package.missing"])
def test_what_is_missing_is_an_error_at_once(tmp_path: Path, code: str) -> None:
    assert (
        run(tmp_path, f"try:\n {code}\nexcept (ImportError, AttributeError): print('missing')") == "missing\n"
    )


def test_two_threads_that_import_a_module_at_once_change_the_same_one(tmp_path: Path) -> None:
    """Each may get an object of its own, if neither has the other's yet."""
    code = """
import package

first, second = package.__getattr__("inner"), package.__getattr__("inner")
first.PUBLIC = 1
second.OTHER = 2
print(first.add(1), second.add(1), first.OTHER, second.OTHER)
"""
    assert run(tmp_path, code) == "loaded\n2 2 2 2\n"


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from package import inner

with ThreadPoolExecutor(8) as pool:
    print(*pool.map(lambda number: inner.add(number), range(8)))
"""
    assert run(tmp_path, code) == "loaded\n5 6 7 8 9 10 11 12\n"


def test_an_interrupted_load_is_tried_again(tmp_path: Path) -> None:
    code = """
from package import broken

try:
    broken.VALUE
except KeyboardInterrupt:
    print("interrupted")
print(broken.VALUE)
"""
    assert run(tmp_path, code) == "interrupted\n7\n"


PRELUDE = """
from types import SimpleNamespace as Fake
from unittest.mock import Mock

clock = Fake(monotonic=lambda: 0.0, now=Mock())
settings = Fake(poll_interval_seconds=0)
project = Fake(clock=clock, settings=settings, may_begin_work=lambda: True, progress=Mock(), look=print)
wait = Fake(gave_up=False, count_left=lambda *times: 0)
"""


@pytest.mark.parametrize(
    ("module", "wait"),
    [
        ("logist.cli.commands.run", "module._wait_for_next_round(project)"),
        ("logist.cli.show.live_screen", "module.LiveScreen.wait(Fake(is_open=False), 0)"),
        ("logist.web.server", "module._look_ahead(project)"),
        (
            "logist.jobs.turn.outages",
            "module.sleep_until_next_try(project, Mock(), wait, 1)",
        ),
        (
            "logist.jobs.children.family_limits",
            "module._wait_for_room(Fake(project=project, job=Mock()), Mock(), None)",
        ),
        (
            "logist.jobs.job_queue",
            """
module._list_candidates, module._read_wait = lambda *_: ["j"], lambda *_: wait
module._is_in_other_run = lambda *_: False
module._wait_for_providers(project, (), (), lambda _: True, 1)
""",
        ),
    ],
)
def test_what_waits_for_long_has_loaded_all_before(tmp_path: Path, module: str, wait: str) -> None:
    """Logist may be upgraded meanwhile, and modules of two versions don't fit each other."""
    code = f"""{PRELUDE}
import {module} as module
from logist import lazy_modules
from package import inner

assert "package.inner" in lazy_modules._specs
{wait}
print(lazy_modules._specs)
"""
    assert run(tmp_path, code).splitlines()[-1] == "{}"


def run(folder: Path, code: str) -> str:
    below = folder / "package" / "below"
    below.mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text(PACKAGE, "utf-8")
    (folder / "package" / "inner.py").write_text(INNER, "utf-8")
    (folder / "package" / "broken.py").write_text(BROKEN, "utf-8")
    (below / "__init__.py").write_text(PACKAGE, "utf-8")
    (below / "deep.py").write_text("NAME = __name__\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("load('wave', own=5); import wave; print(wave.own, 'struct' in sys.modules)", "5 False\n"),
        ("load('wave', own=5); import wave; print(wave.WAVE_FORMAT_PCM, sys.modules['wave'].__file__[-7:])", "1 wave.py\n"),
        ("load('wave'); from wave import WAVE_FORMAT_PCM; print(WAVE_FORMAT_PCM)", "1\n"),
        ("load('wave'); import wave as a; a.Error; import wave as b; print(a is b, a.Error is b.Error)", "False True\n"),
        ("import wave; load('wave', own=5); print(hasattr(wave, 'own'))", "False\n"),
        ("load('wave'); import wave; print(hasattr(wave, 'missing'), hasattr(wave, 'Error'))", "False True\n"),
    ],
)  # fmt: skip
def test_a_standard_module_is_loaded_when_it_is_used(tmp_path: Path, code: str, printed: str) -> None:
    assert (
        run(
            tmp_path,
            f"import sys; from logist.lazy_modules import load_standard_module_on_use as load; {code}",
        )
        == printed
    )


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("import urllib.parse; print(urllib.parse.quote('a b'), urllib.parse.urlsplit('http://h:1/').port)", "a%20b 1\n"),
        ("import urllib.parse as p; p.quote('a'); print(p.unwrap('<URL:x>'), sys.modules['urllib.parse'].__file__[-8:])", "x parse.py\n"),
        ("from urllib.parse import quote; print(sys.modules['urllib.parse'].__spec__)", "None\n"),
        ("import urllib.request; print(urllib.request.pathname2url('a b'))", "a%20b\n"),
        ("from datetime import UTC, datetime; print(datetime.strptime('2001', '%Y').replace(tzinfo=UTC).isoformat())", "2001-01-01T00:00:00+00:00\n"),
        ("from shlex import quote; print(quote('a b'), quote('ab'))", "'a b' ab\n"),
        ("import uuid; print(uuid.UUID(int=5).hex[-1], sys.modules['uuid'].__file__[-7:])", "5 uuid.py\n"),
        ("import signal; print(signal.SIGINT + 0, signal.signal(signal.SIGINT, signal.SIG_IGN) is signal.default_int_handler)", "2 True\n"),
        ("import signal; a = signal.SIG_IGN; print(signal.Signals(2).name, signal.SIGTERM == signal.Signals.SIGTERM)", "SIGINT True\n"),
        ("import subprocess; p = subprocess.Popen(['sleep', '9']); p.terminate(); print(p.wait())", "-15\n"),
        ("import datetime, pickle; print(pickle.loads(pickle.dumps(datetime.date(2001, 2, 3))))", "2001-02-03\n"),
        ("import datetime; kind = datetime.date; print(hasattr(datetime, 'missing'), sys.modules['datetime'].date is kind)", "False True\n"),
        ("import zlib; print(zlib.decompress(zlib.compress(b'a')), sys.modules['zlib'].crc32(b''))", "b'a' 0\n"),
        ("import ntpath, pathlib; print(pathlib.PureWindowsPath('C:/a/B').as_posix(), pathlib.Path('a.py').match('*.py'))", "C:/a/B True\n"),
        ("import selectors; a = selectors.PollSelector; print(isinstance(a(), selectors.BaseSelector), selectors.DefaultSelector().close())", "True None\n"),
        ("import subprocess; print(subprocess.run(['sh', '-c', 'cat; echo e >&2'], input=b'a', capture_output=True))", "CompletedProcess(args=['sh', '-c', 'cat; echo e >&2'], returncode=0, stdout=b'a', stderr=b'e\\n')\n"),
        ("import socketserver, asyncio; print(asyncio.run(asyncio.sleep(0, 5)))", "5\n"),
        # From 3.14 on, the `inspect` that click needs loads it.
        ("import click; print(sys.version_info < (3, 14) and any(each.__module__ == 'ast' for each in object.__subclasses__()))", "False\n"),
        ("import typing; a = typing.List['int | None']; print(typing.get_type_hints(type('A', (), {'__annotations__': {'a': a}})))", "{'a': typing.List[int | None]}\n"),
    ],
)  # fmt: skip
def test_the_program_does_without_some_standard_modules(tmp_path: Path, code: str, printed: str) -> None:
    prepare = "from logist.lazy_modules import load_few_standard_modules; load_few_standard_modules()"
    assert run(tmp_path, f"import sys; {prepare}; {code}") == printed


def test_threads_get_the_same_standard_module(tmp_path: Path) -> None:
    code = """
        import sys, threading
        from logist.lazy_modules import load_standard_module_on_use
        sys.setswitchinterval(1e-6)
        load_standard_module_on_use("inspect")
        import inspect
        found = []
        threads = [threading.Thread(target=lambda: found.append(inspect.Signature)) for _ in range(8)]
        for each in threads: each.start()
        for each in threads: each.join()
        import inspect as real
        print(len(found), {real.Signature} == set(found))
    """
    assert run(tmp_path, textwrap.dedent(code)) == "8 True\n"


@pytest.mark.parametrize(
    "text", ["", "one line", " indented", "\tindented", "a\tb", "two\n    lines\n", "end "]
)
def test_help_texts_are_cleaned_like_docstrings(text: str) -> None:
    assert clean_text(text) == inspect.cleandoc(text)
