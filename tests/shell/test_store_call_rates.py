"""Rate limits on disk: they hold for all processes and threads, and survive kills, clocks and damage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from logist.errors import StorageError
from logist.store import call_rates
from logist.store.call_rates import LONGEST_PAUSE, CallRate, CallRates, CallWait, Permit

SLOTS = CallRate("openai", concurrent=4)


class FakeClock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def limit(tmp_path: Path, clock: FakeClock) -> Callable[..., CallRates]:
    """Returns a function that makes the limits of one more caller."""
    return lambda *limits, server="openai": CallRates(tmp_path / "home/rates", server, limits, clock)


def begin(rates: CallRates) -> Permit:
    permit = rates.try_begin()
    assert isinstance(permit, Permit)
    return permit


def refuse(rates: CallRates) -> CallWait:
    wait = rates.try_begin()
    assert isinstance(wait, CallWait)
    return wait


def test_without_limits_nothing_is_created(limit: Callable[..., CallRates]) -> None:
    rates = limit()
    begin(rates).release()
    assert rates.find_pause() is None
    rates.ask_to_wait(0.0, "429")
    assert not rates.folder.parent.exists()


def test_so_many_calls_are_at_work_and_a_released_one_lets_another_begin(
    limit: Callable[..., CallRates],
) -> None:
    permits = [begin(limit(SLOTS)) for _ in range(4)]
    assert refuse(limit(SLOTS)).words == "openai: 4 of 4 calls running"
    [slots] = [each for each in limit().folder.iterdir() if each.is_dir()]
    assert len(list(slots.iterdir())) == 4
    permits[2].release()
    permits[2].release()  # harmless
    begin(limit(SLOTS))
    assert isinstance(limit(SLOTS).try_begin(), CallWait)
    assert (limit().folder / ".gitignore").read_text() == "*\n"


def test_a_lowered_limit_counts_all_calls_that_are_at_work(limit: Callable[..., CallRates]) -> None:
    permits = [begin(limit(SLOTS)) for _ in range(4)]
    permits[0].release()
    assert refuse(limit(SLOTS._replace(concurrent=2))).words == "openai: 3 of 2 calls running"
    permits[1].release()
    permits[2].release()
    begin(limit(SLOTS._replace(concurrent=2)))


def test_a_provider_and_its_models_have_limits_of_their_own(limit: Callable[..., CallRates]) -> None:
    """A call that one of its limits doesn't allow takes nothing of the others."""
    wide, narrow = CallRate("openai", 2, 600), CallRate("openai/gpt-5", 1)
    held = begin(limit(wide, narrow))
    for _ in range(100):
        assert refuse(limit(wide, narrow)).words == "openai/gpt-5: 1 of 1 call running"
    begin(limit(wide))
    assert refuse(limit(wide, narrow)).words == "openai: 2 of 2 calls running"
    held.release()
    begin(limit(wide, narrow))


def test_calls_a_minute_are_those_of_all_callers(limit: Callable[..., CallRates], clock: FakeClock) -> None:
    rate = CallRate("openai", calls_per_minute=20)
    begin(limit(rate))
    begin(limit(rate))
    wait = refuse(limit(rate))
    assert wait.words == "openai: at most 20 calls a minute"
    assert 3 < wait.seconds < 3.2
    clock.at += wait.seconds
    begin(limit(rate))
    assert isinstance(limit(rate).try_begin(), CallWait)


def test_what_one_caller_was_asked_to_wait_holds_the_others(
    limit: Callable[..., CallRates], clock: FakeClock
) -> None:
    limit().ask_to_wait(90.0, "429")
    limit().ask_to_wait(5.0, "503")  # a shorter one changes nothing
    for rates in (limit(), limit(SLOTS)):
        wait = refuse(rates)
        assert (wait.words, wait.asked_by) == ("openai, which accepts no calls for 90 s (429)", "429")
        assert rates.find_pause() == wait
    begin(limit(server="openai at example.org")).release()
    clock.at += 90
    assert limit().find_pause() is None
    begin(limit(SLOTS))


def test_a_pause_lasts_at_most_an_hour_also_if_the_clock_starts_again(
    limit: Callable[..., CallRates], clock: FakeClock
) -> None:
    limit().ask_to_wait(1e9, "429")
    assert refuse(limit()).seconds == LONGEST_PAUSE
    clock.at = 0.0
    assert refuse(limit()).seconds == LONGEST_PAUSE
    clock.at += LONGEST_PAUSE
    begin(limit())


def test_a_clock_that_goes_back_neither_adds_calls_nor_blocks_them(
    limit: Callable[..., CallRates], clock: FakeClock
) -> None:
    rate = CallRate("openai", calls_per_minute=10)
    begin(limit(rate))
    clock.at -= 900
    for _ in range(5):
        wait = refuse(limit(rate))
        assert wait.seconds <= 6.0
    clock.at += wait.seconds
    begin(limit(rate))


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\x00",
        b'{"version": 1}',
        b'{"version": 99, "boot": "", "buckets": {}, "pauses": {}}',
        "boot",
        "buckets",
        "pauses",
    ],
)
def test_a_damaged_state_is_replaced_and_only_slows_down(
    limit: Callable[..., CallRates], clock: FakeClock, damage: bytes | str
) -> None:
    """What began before is unknown, so that calls come evenly at first; a state from another start of the machine is like it."""
    rate = CallRate("openai", 4, 60)
    begin(limit(rate)).release()
    path = limit().folder / call_rates.STATE
    if isinstance(damage, str):
        bad = {"boot": "other", "buckets": {"openai": [1e999, -1]}, "pauses": {"openai": ["soon", 1]}}
        damage = json.dumps(json.loads(path.read_bytes()) | {damage: bad[damage]}).encode()
    path.write_bytes(damage)
    wait = refuse(limit(rate))
    assert wait.seconds < 1.2
    clock.at += wait.seconds
    begin(limit(rate)).release()
    assert json.loads(path.read_bytes())["buckets"]["openai"][0] < 1


@pytest.mark.parametrize("name", ["rates", "rates/state.json", "slots"])
def test_a_link_in_place_of_a_file_is_named_and_not_followed(
    tmp_path: Path, limit: Callable[..., CallRates], name: str
) -> None:
    begin(limit(SLOTS)).release()
    outside = tmp_path / "outside"
    folder = limit().folder
    path = (
        next(each for each in folder.iterdir() if each.is_dir()) if name == "slots" else folder.parent / name
    )
    path.rename(outside)
    path.symlink_to(outside)
    before = sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes()
    with pytest.raises(StorageError) as caught:
        begin(limit(SLOTS._replace(calls_per_minute=60))).release()
    assert caught.value.where == str(path)
    assert before == (sorted(outside.rglob("*")) if outside.is_dir() else outside.read_bytes())


def test_waiting_reports_what_it_waits_for_and_ends_when_it_is_told_to(
    limit: Callable[..., CallRates], clock: FakeClock
) -> None:
    words: list[str] = []
    slept: list[float] = []

    def sleep(seconds: float) -> bool:
        slept.append(seconds)
        clock.at += seconds
        return len(slept) < 3

    held = [begin(limit(SLOTS)) for _ in range(4)]
    assert limit(SLOTS).wait_for_permit(sleep, words.append) is None
    assert words == ["openai: 4 of 4 calls running"] * 3
    held[0].release()
    assert isinstance(limit(SLOTS).wait_for_permit(sleep, words.append), Permit)
    limit().ask_to_wait(100.0, "429")
    long = limit(SLOTS).wait_for_permit(sleep, words.append, 60.0)
    assert isinstance(long, CallWait)
    assert (long.asked_by, len(words)) == ("429", 3)


HOLDER = """
import sys, time
from pathlib import Path
from logist.store.call_rates import CallRate, CallRates
rates = CallRates(Path(sys.argv[1]), "openai", [CallRate("openai", 4)])
for _ in range(int(sys.argv[2])):
    permit = rates.wait_for_permit(lambda seconds: time.sleep(seconds) or True, lambda words: None)
    print("begun", flush=True)
    time.sleep(float(sys.argv[3]))
    print("over", flush=True)
    permit.release()
"""


def start_holder(folder: Path, calls: int, seconds: float) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", HOLDER, str(folder), str(calls), str(seconds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE)


def test_the_slots_of_killed_processes_are_free_again(tmp_path: Path) -> None:
    rates = CallRates(tmp_path / "rates", "openai", [SLOTS])
    holders = [start_holder(rates.folder, 1, 600) for _ in range(4)]
    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"begun\n"
        assert isinstance(rates.try_begin(), CallWait)
        for holder in holders[:2]:
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait()
        permits = [begin(rates), begin(rates)]
        assert refuse(rates).words == "openai: 4 of 4 calls running"
        permits[0].release()
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def sleep_shortly(seconds: float) -> bool:
    time.sleep(seconds / 20)
    return True


def test_threads_of_one_process_share_the_slots(tmp_path: Path) -> None:
    rates = CallRates(tmp_path / "rates", "openai", [SLOTS])
    lock, at_work, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal at_work, most
        for _ in range(5):
            permit = rates.wait_for_permit(sleep_shortly, lambda words: None)
            assert isinstance(permit, Permit)
            with lock:
                at_work += 1
                most = max(most, at_work)
            time.sleep(0.001)
            with lock:
                at_work -= 1
            permit.release()

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 < most <= 4
