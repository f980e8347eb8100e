"""The ledger on disk: no limit is exceeded by any number of processes, and damage is named."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from logist.core.money.budgets import NOTHING, Account, BookedCall, Cap, Cost, SharedBudget, Sums, list_caps
from logist.digests import compute_sha256
from logist.errors import Damaged, NewerFormat, StorageError
from logist.store import ledger as ledgers
from logist.store.ledger import Ledger
from tests.torture.crowd_forks import Forks
from tests.torture.crowd_ledger import play_round

AT = "2026-11-26T10:00:00Z"
PROJECT = Account("project")
CAP = Cap("all", PROJECT, microcents=20)


def call(number: int = 1, day: str = "2026-11-26", run: str = "") -> BookedCall:
    return BookedCall(f"j/abc/{number}", "j", day, "openai", "openai/gpt-5", run)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "home" / "ledger")


def reserve(ledger: Ledger, number: int, amount: int = 7, caps: tuple[Cap, ...] = (CAP,)) -> bool:
    return ledger.reserve(call(number), Cost(amount, 0, 1), caps, AT) is None


def test_reading_creates_nothing(ledger: Ledger) -> None:
    assert (ledger.read().sums, list(ledger.read_entries()), ledger.verify()) == ({}, [], 0)
    assert ledger.settle({"j/abc/1": NOTHING}, AT) == 0
    assert not ledger.folder.parent.exists()


def test_what_is_reserved_counts_until_it_is_settled(ledger: Ledger) -> None:
    assert reserve(ledger, 1)
    assert reserve(ledger, 2)
    refusal = ledger.reserve(call(3), Cost(7, 0, 1), (CAP,), AT)
    assert refusal is not None
    assert (refusal.cap, refusal.sums.reserved.microcents, refusal.is_temporary) == (CAP, 14, True)
    assert ledger.settle({"j/abc/1": Cost(1, 5, 1), "unknown": Cost(9, 9, 9)}, AT) == 1
    assert ledger.settle({"j/abc/1": Cost(1, 5, 1)}, AT) == 0
    assert reserve(ledger, 3)
    assert ledger.read().sums[PROJECT] == Sums(Cost(1, 5, 1), Cost(14, 0, 2))
    assert ledger.settle({"j/abc/2": Cost(19, 0, 1), "j/abc/3": NOTHING}, AT) == 2
    refusal = ledger.reserve(call(4), Cost(7, 0, 1), (CAP,), AT)
    assert refusal is not None
    assert not refusal.is_temporary
    assert ledger.verify() == 6


def test_a_reservation_of_the_same_call_replaces_the_earlier_one(ledger: Ledger) -> None:
    assert reserve(ledger, 1, 15)
    assert reserve(ledger, 1, 20)
    assert not reserve(ledger, 1, 21)
    assert ledger.read().sums[PROJECT].reserved == Cost(20, 0, 1)
    assert [each.cost.microcents for each in ledger.read().open.values()] == [20]


def test_the_sums_are_the_same_without_the_cache(ledger: Ledger) -> None:
    for number in range(1, 4):
        assert reserve(ledger, number, 5)
    ledger.settle({"j/abc/1": Cost(4, 3, 1)}, AT)
    ledger.book(call(9), Cost(2), AT)
    known = ledger.read()
    for broken in (b"", b"x", (ledger.folder / ledgers.TOTALS).read_bytes()[:-1]):
        (ledger.folder / ledgers.TOTALS).write_bytes(broken)
        view = ledger.read()
        kept = {account: sums for account, sums in view.sums.items() if sums != Sums()}
        assert (kept, view.open) == (
            {key: sums for key, sums in known.sums.items() if sums != Sums()},
            known.open,
        )


def test_the_sums_of_past_days_are_computed_from_the_entries(ledger: Ledger) -> None:
    """So a clock that goes back far spends no more than the limit of that day."""
    days = [f"2026-11-{day:02}" for day in range(1, 29)]
    for number, day in enumerate(days):
        assert ledger.reserve(call(number, day), Cost(7, 0, 1), (), AT) is None
    ledger.settle({f"j/abc/{number}": Cost(6, 0, 1) for number in range(len(days))}, AT)
    first = Account("project", days[0])
    assert first not in ledger.read().sums
    assert (
        len([account for account in ledger.read().sums if account.scope == "project"])
        == ledgers.KEPT_DAYS + 2
    )
    assert ledger.read([first]).sums[first].spent.microcents == 6
    daily = SharedBudget("daily", per="day", microcents=12)
    [cap] = list_caps([daily], call(50, days[0]))
    assert ledger.reserve(call(50, days[0]), Cost(7, 0, 1), [cap], AT) is not None
    assert ledger.reserve(call(50, days[0]), Cost(6, 0, 1), [cap], AT) is None
    assert ledger.reserve(call(51, days[0]), Cost(1, 0, 1), [cap], AT) is not None
    assert ledger.read().sums[Account("project", days[-1])].spent.microcents == 6


def test_the_sums_of_a_past_run_are_computed_from_the_entries(ledger: Ledger) -> None:
    run = "2026-11-01T10:00:00-abcd"
    ledger.book(call(1, "2026-11-01", run=run), Cost(5), AT)
    for number, day in enumerate([f"2026-11-{day:02}" for day in range(2, 28)]):
        ledger.book(call(number + 2, day), Cost(1), AT)
    account = Account(f"run {run}")
    assert account not in ledger.read().sums
    assert ledger.read([account]).sums[account].spent.microcents == 5


def test_an_interrupted_append_is_no_damage(ledger: Ledger) -> None:
    assert reserve(ledger, 1)
    file = ledger.folder / ledgers.LEDGER
    file.write_bytes(file.read_bytes().removesuffix(b"]}\n") + b',{"sequence":2,"ki')
    assert reserve(ledger, 2)
    assert ledger.verify() == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ((b'"microcents":7', b'"microcents":1'), "entry 1 (byte 78) failed verification"),
        ((b'"kind":"settle"', b'"kind":"settlf"'), "entry 3 (byte "),
        ((b'"version":1', b'"version":x'), "the first line of the history is damaged"),
    ],
)
@pytest.mark.parametrize("has_totals", [True, False])
def test_a_damaged_ledger_names_the_entry(
    ledger: Ledger, damage: tuple[bytes, bytes], message: str, *, has_totals: bool
) -> None:
    assert reserve(ledger, 1)
    assert reserve(ledger, 2)
    ledger.settle({"j/abc/1": Cost(3, 0, 1)}, AT)
    assert reserve(ledger, 3)
    file = ledger.folder / ledgers.LEDGER
    file.write_bytes(file.read_bytes().replace(*damage, 1))
    if not has_totals:
        (ledger.folder / ledgers.TOTALS).unlink()
        with pytest.raises(Damaged, match="the ledger is damaged"):
            reserve(ledger, 4)
    with pytest.raises(Damaged) as raised:
        ledger.verify()
    assert message in raised.value.message
    assert raised.value.message.startswith("the ledger is damaged: ")
    assert "interaction" not in raised.value.message
    assert (raised.value.where, raised.value.exit_code) == (str(file), 10)
    assert raised.value.fix == "to restore what the histories of the jobs prove: logist doctor --fix"


def test_negative_amounts_are_refused(ledger: Ledger) -> None:
    """A ledger may come with a clone: it must not allow to spend more."""
    assert reserve(ledger, 1)
    with pytest.raises(Damaged):
        ledger.settle({"j/abc/1": Cost(-100)}, AT)
    for use in (ledger.read, ledger.verify, lambda: reserve(ledger, 2)):
        with pytest.raises(Damaged, match="entry 2 is invalid"):
            use()


@pytest.mark.parametrize("is_removed", [True, False])
def test_entries_that_are_gone_are_damage(ledger: Ledger, *, is_removed: bool) -> None:
    """Else what was spent could be spent again."""
    assert reserve(ledger, 1)
    file = ledger.folder / ledgers.LEDGER
    before = file.read_bytes()
    assert reserve(ledger, 2)
    if is_removed:
        file.unlink()
    else:
        file.write_bytes(before)
    message = "ledger.json is missing" if is_removed else "entry 2 is missing"
    for use in (ledger.verify, ledger.read, lambda: reserve(ledger, 3)):
        with pytest.raises(Damaged, match=message):
            use()


@pytest.mark.parametrize("wrong", ["sums", "open"])
def test_sums_that_are_not_those_of_the_entries_are_damage(ledger: Ledger, wrong: str) -> None:
    """A reservation doesn't read the entries again, so wrong sums would allow to spend more."""
    assert reserve(ledger, 1)
    assert reserve(ledger, 2)
    ledger.settle({"j/abc/1": Cost(3, 0, 1)}, AT)
    path = ledger.folder / ledgers.TOTALS
    data = json.loads(path.read_bytes().partition(b"\n")[2])
    if wrong == "sums":
        data["sums"][0][2] = 0
    else:
        data["open"] = []
    body = json.dumps(data).encode()
    path.write_bytes(compute_sha256(body).encode() + b"\n" + body)
    with pytest.raises(Damaged, match=r"the sums in totals\.json are not those of the entries") as raised:
        ledger.verify()
    assert raised.value.where == str(path)
    ledger.replace(ledger.read_intact_entries())
    assert ledger.verify() == 3


def test_totals_of_an_earlier_entry_are_verified_too(ledger: Ledger) -> None:
    assert reserve(ledger, 1)
    before = (ledger.folder / ledgers.TOTALS).read_bytes()
    assert reserve(ledger, 2)
    (ledger.folder / ledgers.TOTALS).write_bytes(before)
    assert ledger.verify() == 2


def test_a_ledger_of_a_newer_logist_is_refused(ledger: Ledger) -> None:
    assert reserve(ledger, 1)
    file = ledger.folder / ledgers.LEDGER
    file.write_bytes(file.read_bytes().replace(b'"version":1', b'"version":9', 1))
    (ledger.folder / ledgers.TOTALS).unlink()
    for use in (ledger.verify, ledger.read, lambda: reserve(ledger, 2)):
        with pytest.raises(
            NewerFormat, match=r"the ledger was written by a newer Logist \(ledger format 9\)"
        ):
            use()


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_link_in_place_of_the_ledger_is_named(ledger: Ledger, tmp_path: Path, *, is_dangling: bool) -> None:
    ledger.folder.parent.mkdir()
    ledger.folder.symlink_to(tmp_path / "other")
    if not is_dangling:
        (tmp_path / "other").mkdir()
    for use in (ledger.verify, ledger.read, lambda: reserve(ledger, 1)):
        with pytest.raises(StorageError, match="is a symbolic link; Logist needs a directory here") as raised:
            use()
        assert raised.value.where == str(ledger.folder)
        assert raised.value.fix == "put the directory itself in its place, or remove the link"
    assert not is_dangling or not (tmp_path / "other").exists()


def test_a_long_ledger_continues_in_a_new_file(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "ROTATE_AT", 2000)
    for number in range(20):
        assert reserve(ledger, number, 1)
    assert (ledger.folder / "ledger.1.json.gz").exists()
    (ledger.folder / ledgers.TOTALS).unlink()
    assert ledger.read().sums[PROJECT].reserved.microcents == 20
    assert ledger.verify() == 20
    assert not reserve(ledger, 21, 1)


def test_a_repair_reads_also_the_entries_after_the_damage(ledger: Ledger) -> None:
    for number in range(1, 4):
        assert reserve(ledger, number, 1)
    file = ledger.folder / ledgers.LEDGER
    file.write_bytes(file.read_bytes().replace(b"j/abc/2", b"j/xyz/2"))
    entries = ledger.read_intact_entries()
    assert [entry.call_id for entry in entries] == ["j/abc/1", "j/abc/3"]
    assert ledger.replace(entries) == 2
    assert ledger.read().sums[PROJECT].reserved.microcents == 2
    assert ledger.verify() == 2


def test_a_new_ledger_has_what_is_given(ledger: Ledger) -> None:
    assert reserve(ledger, 1)
    entries = list(ledger.read_entries())
    assert ledger.replace(entries) == 1
    assert ledger.read().sums[PROJECT].reserved.microcents == 7
    assert ledger.verify() == 1


def test_64_processes_and_kills_never_exceed_a_limit(tmp_path: Path) -> None:
    with Forks(tmp_path / "errors") as forks:
        total, problems = play_round(tmp_path / "round", forks, random.Random(1), 64)
    assert (problems, (tmp_path / "errors").read_text()) == ([], "")
    assert total <= 1000


def test_an_interrupted_repair_keeps_the_damaged_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve(ledger, 1)
    entries = list(ledger.read_entries())
    path = ledger.folder / "ledger.json"
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(StorageError):
            ledger.replace(entries)
    assert path.read_bytes() == before
    assert ledger.replace(entries) == 1
    assert sorted(os.listdir(ledger.folder)) == [".gitignore", "ledger.json"]


def test_a_ledger_of_which_only_closed_files_are_left_is_damaged(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "ROTATE_AT", 2000)
    for number in range(20):
        assert reserve(ledger, number, 1)
    assert (ledger.folder / "ledger.1.json.gz").exists()
    for name in ("ledger.json", "totals.json"):
        (ledger.folder / name).unlink()
    with pytest.raises(Damaged, match=r"ledger\.json is missing"):
        ledger.read()
