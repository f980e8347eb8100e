"""Attestations: other tools read and verify them, and they show that the end of a history was cut off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from logist.jobs.steward.attestations import MOST_BYTES, NAMESPACE
from tests.cli.desk import Desk
from tests.cli.test_signing import SignedDesk
from tests.support import Ran

HASH = "0" * 64


@pytest.fixture
def done(desk: Desk) -> Desk:
    desk.create()
    assert desk("job", "run", "j1").code == 11
    assert desk("job", "approve", "j1").code == 0
    return desk


def find(desk: Desk, job: str = "j1") -> Path:
    return desk.home / "attestations" / f"{job}.intoto.json"


def attest(desk: Desk, *options: str) -> Path:
    ran = desk("attest", "j1", *options)
    assert ran.code == 0, ran.err
    return find(desk)


def cut_off(desk: Desk, kept: int) -> None:
    """Remove the last interactions and state.json, as somebody would who wants nobody to see it."""
    file = desk.job() / "jobHistory.json"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[: kept + 1], lines[-1]]))
    (desk.job() / "state.json").unlink()
    shutil.rmtree(desk.job() / "logs", ignore_errors=True)


def test_an_in_toto_library_reads_what_was_attested(done: Desk) -> None:
    text = attest(done).read_text("utf-8")
    message = json_format.Parse(text, statement_pb2.Statement())
    Statement.copy_from_pb(message).validate()
    history = done.history()
    assert dict(message.subject[0].digest) == {"sha256": history[-1]["checksum"]}
    said = json.loads(text)["predicate"]
    assert (said["status"], said["history"]["interactions"]) == ("SUCCESS", len(history))
    assert [(each["role"], each["phase"], each["runs"]) for each in said["agents"]] == [
        ("Supervisor", "reviewer", 1),
        ("Worker", "doer", 1),
    ]
    assert [(each["kind"], each["steward"], each["signed"]) for each in said["decisions"]] == [
        ("create", "ada", False),
        ("approve", "ada", False),
    ]
    assert "Do it." not in text  # no prompt


def test_the_same_history_gives_the_same_bytes(done: Desk) -> None:
    first = attest(done).read_bytes()
    assert attest(done).read_bytes() == first


def test_without_an_attestation_nothing_shows_a_cut_off_end(done: Desk) -> None:
    cut_off(done, 2)
    assert done("job", "verify", "j1").code == 0


def test_a_cut_off_end_differs_from_the_attestation(done: Desk) -> None:
    file = attest(done)
    assert done("job", "verify", "j1").out.splitlines()[1] == "as attested: 4 interactions"
    cut_off(done, 2)
    for command in (("job", "verify", "j1"), ("attest", "verify", str(file))):
        ran = done(*command)
        assert ran.code == 10
        assert "4 interactions were attested, and the history has 2: its end was cut off" in ran.err
    moved = file.rename(done.place / "kept.json")
    assert done("job", "verify", "j1").code == 0
    assert done("job", "verify", "j1", "--attestation", str(moved)).code == 10


def test_a_history_may_grow(done: Desk) -> None:
    file = attest(done)
    assert done("job", "rerun", "j1").code == 0
    assert done("job", "verify", "j1").code == 0
    assert "the history has grown since, to 5 interactions" in done("attest", "verify", str(file)).out


def test_a_rewritten_history_is_noticed(done: Desk) -> None:
    file = attest(done)
    shutil.rmtree(done.job())
    done.create(prompt="Do another thing.")
    assert done("job", "run", "j1").code == 11
    assert done("job", "approve", "j1").code == 0
    ran = done("job", "verify", "j1")
    assert ran.code == 10
    assert (
        f"error: {file}: interaction 4 is not the one that was attested: the history was rewritten" in ran.err
    )


def test_an_attestation_of_another_job(done: Desk) -> None:
    file = attest(done)
    done.create("j2")
    ran = done("job", "verify", "j2", "--attestation", str(file))
    assert (ran.code, "the attestation is of the job j1, not of j2" in ran.err) == (10, True)


def scrub(desk: Desk) -> None:
    scrubbed = desk("job", "scrub", "j1", "--value-from-stdin", "--force", "--yes", stdin="Done.")
    assert scrubbed.code == 0, scrubbed.err


def test_a_scrub_ends_what_was_attested_before(done: Desk) -> None:
    attest(done)
    scrub(done)
    ran = done("job", "verify", "j1")
    assert ran.code == 10
    assert "was scrubbed (interaction 5) after it was attested, so nothing is proven any more" in ran.err
    attest(done)
    assert done("job", "verify", "j1").code == 0


def test_a_scrub_does_not_excuse_a_rewritten_history(done: Desk) -> None:
    file = attest(done)
    shutil.rmtree(done.job())
    done.create(prompt="Do another thing.")
    assert done("job", "run", "j1").code == 11
    assert done("job", "approve", "j1").code == 0
    scrub(done)
    for command in (("job", "verify", "j1"), ("attest", "verify", str(file))):
        ran = done(*command)
        assert (ran.code, "has grown" in ran.out) == (10, False)


def test_it_is_verified_without_its_job(done: Desk) -> None:
    file = attest(done)
    shutil.rmtree(done.job())
    ran = done("attest", "verify", str(file))
    assert (ran.code, ran.out) == (0, "j1: OK, not signed: 4 interactions\n")
    assert "the job j1 is not here" in ran.err
    data = done("attest", "verify", str(file), "--json").json["data"]
    assert (data["ok"], data["compared"], data["interactions_now"]) == (True, False, None)


def sign(signed: SignedDesk) -> Path:
    public = (signed.desk.place / "ada.pub").read_text("utf-8")
    line = f'ada@example.org namespaces="logist,{NAMESPACE}" {public}'
    (signed.config / "signers").write_text(line, "utf-8")
    signed.configure()
    ran = signed("attest", "j1", "--sign")
    assert ran.code == 0, ran.err
    return find(signed.desk)


@pytest.fixture
def signed(desk: Desk) -> SignedDesk:
    return SignedDesk(desk)


def test_ssh_keygen_verifies_the_signature_without_logist(signed: SignedDesk) -> None:
    file = sign(signed)
    arguments = [
        "-Y",
        "verify",
        "-n",
        NAMESPACE,
        "-I",
        "ada@example.org",
        "-f",
        str(signed.config / "signers"),
    ]
    with file.open("rb") as statement:
        subprocess.run(["ssh-keygen", *arguments, "-s", f"{file}.sig"], stdin=statement, check=True)
    ran = signed("attest", "verify", str(file))
    assert (ran.code, ran.out) == (0, "j1: OK, signed by ada@example.org: 3 interactions\n")
    assert "as attested: 3 interactions, signed by ada@example.org" in signed("job", "verify", "j1").out


def _change(file: Path) -> None:
    file.write_text(
        file.read_text("utf-8").replace('"SUCCESS"', '"success"').replace("APPROVAL", "approval"), "utf-8"
    )


def _sign_by_another(file: Path) -> None:
    os.unlink(f"{file}.sig")
    key = file.parent.parent.parent / "agent"
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(file)], check=True)


def _sign_for_another_purpose(file: Path) -> None:
    os.unlink(f"{file}.sig")
    key = file.parent.parent.parent / "ada"
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "logist", "-f", str(key), str(file)], check=True)


@pytest.mark.parametrize("attack", [_change, _sign_by_another, _sign_for_another_purpose])
def test_what_was_not_signed_by_an_allowed_signer_is_refused(
    signed: SignedDesk, attack: Callable[[Path], None]
) -> None:
    file = sign(signed)
    attack(file)
    for command in (("attest", "verify", str(file)), ("job", "verify", "j1")):
        ran = signed(*command)
        assert ran.code == 10
        assert "the signature is not valid, or not by an allowed signer" in ran.err


def test_a_missing_signature_counts_where_one_is_required(signed: SignedDesk) -> None:
    file = sign(signed)
    signers = str(signed.config / "signers")
    os.unlink(f"{file}.sig")
    assert signed("attest", "verify", str(file)).code == 0
    ran = signed("attest", "verify", str(file), "--allowed-signers", signers)
    assert (ran.code, "error: " in ran.err, "the attestation is not signed" in ran.err) == (10, True, True)


def test_a_new_attestation_has_no_old_signature(signed: SignedDesk) -> None:
    file = sign(signed)
    assert signed("attest", "j1").code == 0
    assert not Path(f"{file}.sig").exists()


def repeated(text: str) -> str:
    return text.replace('"job": "j1"', '"job": "j1", "job": "j2"')


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (repeated, "a name occurs twice in an object"),
        (
            lambda text: text.replace("urn:logist:job:v1", "https://slsa.dev/provenance/v1"),
            "a statement of another type",
        ),
        (lambda text: text.replace('"sha256": "', '"sha256": "00'), "don't fit together"),
        (lambda text: text.replace('"interactions": 4', '"interactions": true'), "don't fit together"),
        (lambda text: text.replace('"merge": null', '"merge": {"commit": "x"}'), "don't fit together"),
        (lambda text: text.replace('"history"', '"histories"'), "a part of the statement is missing"),
        (lambda text: "[" * 100_000, "not an attestation of a job"),
        (lambda text: "", "it is not valid JSON"),
        (lambda text: " " * (MOST_BYTES + 1), "larger than"),
    ],
)
def test_what_is_no_attestation_is_refused(done: Desk, edit: Callable[[str], str], message: str) -> None:
    file = attest(done)
    file.write_text(edit(file.read_text("utf-8")), "utf-8")
    for command in (("attest", "verify", str(file)), ("job", "verify", "j1")):
        ran = done(*command)
        assert (ran.code, message in ran.err) == (5, True), ran.err


def test_a_link_is_not_followed(done: Desk) -> None:
    file = attest(done)
    file.rename(done.place / "elsewhere.json")
    file.symlink_to(done.place / "elsewhere.json")
    assert done("attest", "verify", str(file)).code == 5


def test_other_places_are_not_overwritten(done: Desk) -> None:
    assert done("attest", "j1", "--output", "a.json").code == 0
    assert done("attest", "j1", "--output", "a.json").code == 8
    assert done("attest", "j1", "--output", "a.json", "--force").code == 0
    assert not find(done).exists()


def test_a_job_with_the_name_of_a_command(desk: Desk) -> None:
    desk.create("verify")
    assert desk("attest", "create", "verify").code == 0
    assert find(desk, "verify").is_file()


def test_a_damaged_history_is_not_attested(done: Desk) -> None:
    file = done.job() / "jobHistory.json"
    file.write_bytes(file.read_bytes().replace(b"COMPLETED", b"COMPLETEX", 1))
    (done.job() / "damaged-on-purpose").touch()
    ran: Ran = done("attest", "j1")
    assert ran.code == 10
    assert not find(done).exists()


def test_a_planted_link_is_replaced_and_not_followed(done: Desk) -> None:
    mine, signature = done.place / "mine", done.place / "mine.sig"
    mine.write_text("mine")
    signature.write_text("mine too")
    find(done).parent.mkdir()
    find(done).symlink_to(mine)
    attest(done)
    assert (mine.read_text(), signature.read_text()) == ("mine", "mine too")
    assert not find(done).is_symlink()


def test_a_planted_link_instead_of_the_folder_is_refused(done: Desk) -> None:
    elsewhere = done.place / "elsewhere"
    elsewhere.mkdir()
    signature = elsewhere / f"{find(done).name}.sig"
    signature.write_text("mine")
    find(done).parent.symlink_to(elsewhere)
    ran = done("attest", "j1")
    assert ran.code == 8
    assert "a symbolic link, where attestations belong" in ran.err
    assert list(elsewhere.iterdir()) == [signature]
