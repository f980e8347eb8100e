"""Signed decisions: `steward.sign`, `steward.require`, `steward.allowed_signers`, with real keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from logist.api import Project
from logist.config.environment import Environment
from logist.errors import Refused
from logist.jobs.base.job_reader import read_interactions
from logist.jobs.base.project_opening import open_project
from logist.jobs.steward.signed_decisions import check_signatures
from tests import support
from tests.cli.desk import Desk, answer, command
from tests.cli.terminal import Terminal
from tests.loopback import Loopback
from tests.support import Ran


class SignedDesk:
    """A desk with keys, and a config of the user's own."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.config = desk.place / "user" / "logist"
        self.config.mkdir(parents=True)
        for name in ("ada", "agent"):
            arguments = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(desk.place / name)]
            subprocess.run(["ssh-keygen", *arguments], check=True)
        public = (desk.place / "ada.pub").read_text("utf-8")
        (self.config / "signers").write_text(f'ada@example.org namespaces="logist" {public}', "utf-8")
        desk.create()
        assert desk("job", "run", "j1").code == 11

    def __call__(self, *args: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ran:
        return self.desk(*args, env=self.env | dict(env or {}), stdin=stdin)

    @property
    def env(self) -> dict[str, str]:
        return {"XDG_CONFIG_HOME": str(self.config.parent)}

    def configure(self, *, key: str = "ada", **rules: str) -> None:
        """Set the user's own settings of signing."""
        chosen = {"sign": "ssh", "key": str(self.desk.place / key), "allowed_signers": "signers", **rules}
        (self.config / "config.yaml").write_text(json.dumps({"steward": chosen}), "utf-8")

    def last(self) -> dict[str, object]:
        entry: dict[str, object] = self.desk.history()[-1]
        return entry


@pytest.fixture
def signed(desk: Desk) -> SignedDesk:
    return SignedDesk(desk)


def test_nothing_is_signed_by_default(signed: SignedDesk) -> None:
    assert signed("job", "approve", "j1").code == 0
    assert "signature" not in signed.desk.history()[-1]["command"]
    assert signed("job", "verify", "j1", "--json").json["data"]["signatures"] == []


def test_decisions_are_signed_and_verified(signed: SignedDesk) -> None:
    signed.configure()
    assert signed("job", "suspend", "j1").code == 0
    assert signed("job", "resume", "j1").code == 0
    assert signed("job", "approve", "j1", "--note", "Well done.").code == 0
    ran = signed("job", "verify", "j1")
    assert ran.code == 0, ran.err
    assert "signed by ada@example.org: #4 suspend, #5 resume, #6 approve" in ran.out
    assert "   by ada (pipe), signed\n" in signed("job", "history", "j1").out
    shown = signed("job", "show", "j1")
    assert "#6 approve: by ada (pipe), signed\n" in shown.out
    rows = signed("job", "verify", "j1", "--json").json["data"]["signatures"]
    assert {(row["signer"], row["problem"]) for row in rows} == {("ada@example.org", None)}
    without_ssh = {"PATH": str(signed.desk.place)}
    assert signed("job", "replay", "j1", env=without_ssh).code == 0


def test_a_person_at_the_terminal_enters_the_passphrase(signed: SignedDesk) -> None:
    arguments = ["-q", "-p", "-P", "", "-N", "secret", "-f", str(signed.desk.place / "ada")]
    subprocess.run(["ssh-keygen", *arguments], check=True)
    signed.configure(require="signature")
    with Terminal(signed.desk, "job", "approve", "j1", env=signed.env) as terminal:
        terminal.wait_for("passphrase: ")
        terminal.type(b"secret\n")
        assert terminal.wait() == 0, terminal.seen
    assert signed.desk.history()[-1]["steward"]["via"] == "terminal"
    assert signed("job", "verify", "j1").code == 0


def test_a_signature_is_no_secret_and_is_not_exported(signed: SignedDesk) -> None:
    signed.configure()
    assert signed("job", "approve", "j1").code == 0
    assert signed("job", "verify", "j1", "--secrets").code == 0
    assert signed("job", "export", "j1", "--fixture", "out", "--redact").code == 0
    exported = (signed.desk.place / "out" / "jobHistory.json").read_text("utf-8")
    assert "review_hash" in exported
    assert "SSH SIGNATURE" not in exported


def test_a_fork_keeps_the_signatures_of_its_origin(signed: SignedDesk) -> None:
    signed.configure()
    assert signed("job", "suspend", "j1").code == 0
    assert signed("job", "fork", "j1", "--id", "copy").code == 0
    ran = signed("job", "verify", "copy")
    assert (ran.code, "signed by ada@example.org: #4 suspend" in ran.out) == (0, True), ran.err


def test_an_imported_history_keeps_the_signatures_under_a_new_id(signed: SignedDesk) -> None:
    signed.configure()
    assert signed("job", "approve", "j1").code == 0
    assert signed("job", "import", ".logist/jobs/j1", "--id", "copy").code == 0
    ran = signed("job", "verify", "copy")
    assert (ran.code, "signed by ada@example.org: #4 approve" in ran.out) == (0, True), ran.err


def test_a_signature_without_a_file_of_signers_is_not_checked(signed: SignedDesk) -> None:
    signed.configure()
    assert signed("job", "approve", "j1").code == 0
    ran = signed.desk("job", "verify", "j1")
    assert ran.code == 0
    assert "1 signature not checked" in ran.err


def test_unsigned_approvals_are_refused_where_signatures_are_required(signed: SignedDesk) -> None:
    (signed.config / "config.yaml").write_text("steward: {require: signature}\n", "utf-8")
    before = signed.desk.history()
    ran = signed("job", "approve", "j1")
    assert (ran.code, ran.out) == (8, "")
    assert "approvals must be signed (steward.require)" in ran.err
    signed.configure(require="signature", key="agent")
    ran = signed("job", "approve", "j1")
    assert ran.code == 8
    assert "not by an allowed signer" in ran.err
    assert signed.desk.history() == before
    signed.configure(require="signature")
    assert signed("job", "approve", "j1").code == 0
    assert signed("job", "verify", "j1").code == 0


def test_python_decisions_are_signed_too(signed: SignedDesk) -> None:
    signed.configure(require="signature", key="agent")
    environment = dict(os.environ) | signed.env | signed.desk.env
    job = Project.open(signed.desk.place, environment=environment).open_job("j1")
    with pytest.raises(Refused, match="not by an allowed signer"):
        job.approve()
    signed.configure(require="signature")
    job = Project.open(signed.desk.place, environment=environment).open_job("j1")
    result = job.approve(seen=job.review_hash, revision=3)
    recorded = result.entries[-1]
    assert recorded.steward is not None
    assert recorded.steward.via == "python"
    assert recorded.command["seen"] is True
    assert recorded.command["signature"]["job"] == "j1"


def test_an_approval_without_a_signature_is_found_later(signed: SignedDesk) -> None:
    """As by a program outside of the sandbox, which chooses another config."""
    signed.configure(require="signature")
    assert signed("job", "approve", "j1", env={"XDG_CONFIG_HOME": str(signed.desk.place / "none")}).code == 0
    ran = signed("job", "verify", "j1")
    assert ran.code == 10
    assert "interaction 4 (approve): the approval is not signed, but steward.require is set" in ran.err
    (signed.desk.home / "config.yaml").write_text("no_such_key: 1\n", "utf-8")
    assert signed("job", "verify", "j1").code == 10


def test_work_is_merged_only_with_a_signed_approval(signed: SignedDesk) -> None:
    support.make_repository(signed.desk.place / "repo")
    signed.desk.script(answer(files={"a.txt": "a"}), answer())
    signed.configure(require="signature")
    for job_id, more in (("j2", {"XDG_CONFIG_HOME": str(signed.desk.place / "none")}), ("j3", {})):
        signed.desk.create(job_id, "--repo", "repo")
        assert signed("job", "run", job_id).code == 11
        assert signed("job", "approve", job_id, env=more).code == 0
    ran = signed("job", "merge", "j2")
    assert ran.code == 8
    assert "can't merge: interaction 4: the approval is not signed" in ran.err
    assert signed("job", "merge", "j3").code == 0


@pytest.mark.parametrize("change", ["note", "job", "signature"])
def test_a_changed_decision_has_no_valid_signature(signed: SignedDesk, change: str) -> None:
    signed.configure()
    assert signed("job", "approve", "j1", "--note", "Good.").code == 0
    project = open_project(Environment(dict(os.environ) | signed.env), signed.desk.place, say=print)
    entries = list(read_interactions(project.open_job("j1")))
    (checked,) = check_signatures(project, "j1", entries)
    assert (checked.signer, checked.problem) == ("ada@example.org", None)
    recorded = entries[-1].command
    given = {
        "note": {**recorded, "note": "Bad."},
        "job": {**recorded, "signature": {**recorded["signature"], "job": "j2"}},
        "signature": {**recorded, "signature": {**recorded["signature"], "ssh": "?"}},
    }[change]
    entries[-1] = entries[-1].model_copy(update={"command": given})
    (checked,) = check_signatures(project, "j1", entries)
    assert checked.signer is None
    assert checked.problem


@pytest.mark.parametrize("where", ["before the approval", "the approval", "the signature"])
def test_other_files_than_those_that_were_signed_are_not_merged(signed: SignedDesk, where: str) -> None:
    """As by a program that can write to the history: the files are recorded in other interactions than the signature."""
    signed.configure(require="signature")
    assert signed("job", "approve", "j1").code == 0
    project = open_project(Environment(dict(os.environ) | signed.env), signed.desk.place, say=print)
    entries = list(read_interactions(project.open_job("j1")))
    approval = entries[-1]
    assert approval.command["signature"]["checkpoint"] == entries[-2].checkpoint_after
    other = {"checkpoint_after": "0" * 40}
    match where:
        case "before the approval":
            entries[:-1] = [entry.model_copy(update=other) for entry in entries[:-1]]
        case "the approval":
            entries[-1] = approval.model_copy(update=other)
        case "the signature":
            changed = {**approval.command["signature"], "checkpoint": ""}
            entries[-1] = approval.model_copy(update={"command": {**approval.command, "signature": changed}})
    (checked,) = check_signatures(project, "j1", entries)
    assert checked.signer is None
    assert checked.problem


def test_a_project_cannot_set_how_decisions_are_signed(signed: SignedDesk) -> None:
    signed.configure(require="signature")
    signed.desk.settings("steward: {sign: ssh, allowed_signers: mine}\n")
    before = signed.desk.history()
    ran = signed("job", "approve", "j1")
    assert ran.code == 5
    assert "config.yaml:1: `steward` can't be set by a project, only in your own config" in ran.err
    assert signed.desk.history() == before
    signed.desk.settings("")
    assert signed("config", "set", "steward.key", "/k").code == 2
    assert signed("config", "set", "--user", "steward.key", "/k").code == 0


def test_what_can_go_wrong_while_signing(signed: SignedDesk) -> None:
    before = signed.desk.history()
    (signed.config / "config.yaml").write_text("steward: {sign: ssh, require: signature}\n", "utf-8")
    ran = signed("job", "approve", "j1")
    assert (ran.code, "steward.require needs steward.allowed_signers" in ran.err) == (5, True)
    signed.configure(key="none")
    ran = signed("job", "approve", "j1")
    assert (ran.code, "can't sign the decision: key not found" in ran.err) == (5, True)
    (signed.desk.place / "broken").write_text("?", "utf-8")
    signed.configure(key="broken")
    ran = signed("job", "approve", "j1")
    assert (ran.code, "can't sign the decision: " in ran.err) == (8, True)
    assert signed("job", "approve", "j1", env={"PATH": str(signed.desk.place)}).code in (
        8,
        10,
    )  # no git either
    signed.configure(require="signature", allowed_signers="gone")
    ran = signed("job", "approve", "j1")
    assert (ran.code, "steward.allowed_signers: file not found" in ran.err) == (5, True)
    assert signed.desk.history() == before


def test_an_agent_in_the_sandbox_approves_nothing(signed: SignedDesk) -> None:
    """It runs logist by path, writes into the history, and looks for the key."""
    signed.configure(require="signature")
    place, jobs = signed.desk.place, signed.desk.jobs
    logist = f"{sys.executable} -m logist job approve"
    tries = [
        f"cd {place} && {logist} j1",
        f"{logist} j1 --jobs-dir {jobs}",
        f"{logist} j2 --override mine --jobs-dir {jobs}",
        f"echo , >> {jobs}/j1/jobHistory.json",
        f"rm {jobs}/j1/state.json",
        f"cat {place}/ada",
    ]
    turns = [
        {"text": "", "calls": [{"name": "execute_command", "args": {"command": each}}]} for each in tries
    ]
    usage = {"usage": {"input": 10, "output": 10}}
    with Loopback(*({**each, **usage} for each in turns), {"text": command(), **usage}) as server:
        models = {"m": {"provider_model": "openai/m", "endpoint": server.url, "price": "free"}}
        config = json.loads((signed.config / "config.yaml").read_text("utf-8"))
        config |= {"model": "m", "models": models, "review": False, "sandbox": {"readable": [sys.prefix]}}
        (signed.config / "config.yaml").write_text(json.dumps(config), "utf-8")
        before = (jobs / "j1" / "jobHistory.json").read_bytes()
        signed.desk.create("j2")
        ran = signed("job", "step", "j2", "--agent", "model")
        assert ran.code in (0, 11), ran.err + ran.out
    assert (jobs / "j1" / "jobHistory.json").read_bytes() == before
    assert signed.desk.state("j1")["status"] == "APPROVAL_REQUIRED"
    kinds = [entry["kind"] for entry in signed.desk.history("j2")]
    assert "approve" not in kinds
    log = "\n".join(path.read_text("utf-8") for path in (jobs / "j2" / "logs").glob("*.turns.jsonl"))
    assert log.count("execute_command") >= len(tries)
    assert "PRIVATE KEY" not in log


def scrub(signed: SignedDesk, value: str = "Well done", **env: str) -> Ran:
    return signed("job", "scrub", "j1", "--value-from-stdin", "--yes", stdin=value, env=env)


def test_a_scrub_is_signed_and_says_which_signatures_were_valid(signed: SignedDesk) -> None:
    signed.configure(require="signature")
    assert signed("job", "suspend", "j1").code == 0
    assert signed("job", "resume", "j1").code == 0
    assert signed("job", "approve", "j1", "--note", "Well done, Bob.").code == 0
    ran = scrub(signed)
    assert (ran.code, "1 signature no longer valid" in ran.out) == (0, True), ran.err
    assert signed.last()["command"]["signed"] == [{"sequence": 6, "signer": "ada@example.org"}]  # type: ignore[index]
    ran = signed("job", "verify", "j1")
    assert ran.code == 0, ran.err
    assert "signed by ada@example.org: #4 suspend, #5 resume, #7 scrub" in ran.out
    assert (
        "signed by ada@example.org before the scrub (interaction 7), which changed it: #6 approve" in ran.out
    )
    assert "3 places; interactions 1 to 6 are in a new chain" in ran.out
    rows = signed("job", "verify", "j1", "--json").json["data"]
    assert [row["scrub"] for row in rows["signatures"]] == [None, None, 7, None]
    assert [row["by"] for row in rows["scrubs"]] == ["ada"]
    assert scrub(signed, "suspended or what").code == 0
    assert scrub(signed, ", Bob").code in (0, 8)
    ran = signed("job", "verify", "j1")
    assert (ran.code, "before the scrub" in ran.out) == (0, True), ran.err


def test_a_scrub_must_be_signed_where_signatures_are_required(signed: SignedDesk) -> None:
    signed.configure(require="signature")
    assert signed("job", "approve", "j1", "--note", "Well done, Bob.").code == 0
    signed.configure(require="signature", key="agent")
    before = signed.desk.history()
    ran = scrub(signed)
    assert (ran.code, "not scrubbed: the signature is invalid" in ran.err) == (8, True)
    assert signed.desk.history() == before
    assert scrub(signed, XDG_CONFIG_HOME=str(signed.desk.place / "none")).code == 0
    signed.configure(require="signature")
    ran = signed("job", "verify", "j1")
    assert ran.code == 10
    assert "interaction 5 (scrub): the scrub is not signed, but steward.require is set" in ran.err
    assert "interaction 4 (approve): the signature is invalid" in ran.err


@pytest.mark.parametrize("forged", ["before", "after", "list", "head"])
def test_a_scrub_hides_no_forged_approval(signed: SignedDesk, forged: str) -> None:
    """An approval by another key, before a true scrub; or a changed history below the signature of a true scrub."""
    signed.configure(require="signature")
    if forged == "before":
        signed.configure(key="agent")
        assert signed("job", "approve", "j1", "--note", "Well done, Bob.").code == 0
        signed.configure(require="signature")
        assert scrub(signed).code == 0
        ran = signed("job", "verify", "j1")
        assert (ran.code, "interaction 4 (approve): the signature is invalid" in ran.err) == (10, True)
        return
    assert signed("job", "approve", "j1", "--note", "Well done, Bob.").code == 0
    assert scrub(signed).code == 0
    project = open_project(Environment(dict(os.environ) | signed.env), signed.desk.place, say=print)
    entries = list(read_interactions(project.open_job("j1")))
    assert [each.problem for each in check_signatures(project, "j1", entries)] == [None, None]
    approval, done = entries[-2:]
    if forged == "after":  # the chain is made again, as a program that can write to the history can do it
        entries[-2] = approval.model_copy(
            update={"command": {**approval.command, "note": "x"}, "checksum": "0" * 64}
        )
        entries[-1] = done.model_copy(update={"previous": "0" * 64})
    elif forged == "list":
        signed_before = [*done.command["signed"], {"sequence": 3, "signer": "ada@example.org"}]
        entries[-1] = done.model_copy(update={"command": {**done.command, "signed": signed_before}})
    else:
        entries[-1] = done.model_copy(
            update={"command": {**done.command, "head": "0" * 64}, "previous": "0" * 64}
        )
    problems = {each.sequence: each.problem for each in check_signatures(project, "j1", entries)}
    assert problems[4]


def test_work_that_was_approved_before_a_scrub_is_approved_again(signed: SignedDesk) -> None:
    support.make_repository(signed.desk.place / "repo")
    signed.desk.script(answer(files={"a.txt": "Well done, Bob"}), answer())
    signed.configure(require="signature")
    signed.desk.create("j2", "--repo", "repo")
    assert signed("job", "run", "j2").code == 11
    assert signed("job", "approve", "j2").code == 0
    ran = signed("job", "scrub", "j2", "--value-from-stdin", "--yes", stdin="Well done")
    assert ran.code == 0, ran.err
    ran = signed("job", "merge", "j2")
    assert ran.code == 8
    assert "can't merge: interaction 4: the scrub, interaction 5, has changed what was signed" in ran.err
    assert signed("job", "restep", "j2", "--to", "4").code in (0, 11)
    assert signed("job", "approve", "j2").code == 0
    assert signed("job", "merge", "j2").code == 0
    assert (signed.desk.place / "repo" / "a.txt").read_text("utf-8") == "[redacted], Bob"
