"""Signed decisions on the page, with real keys and a real ssh-agent. Nobody is asked for a passphrase on the server."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import support
from tests.cli.desk import Desk
from tests.cli.test_signing import SignedDesk
from tests.support import RunLogist
from tests.web.action_page import ActionPage, strip_tags


@pytest.fixture
def signed(tmp_path: Path, cli: RunLogist) -> SignedDesk:
    return SignedDesk(Desk(tmp_path, cli))


def lock_key(signed: SignedDesk) -> None:
    """Give the key a passphrase."""
    arguments = ["-q", "-p", "-P", "", "-N", "secret", "-f", str(signed.desk.place / "ada")]
    subprocess.run(["ssh-keygen", *arguments], check=True)


def reach_agent(socket: str) -> dict[str, str]:
    return dict(os.environ) | {"SSH_AUTH_SOCK": socket}


def is_reachable(socket: str) -> bool:
    ran = subprocess.run(["ssh-add", "-l"], env=reach_agent(socket), capture_output=True, check=False)
    return ran.returncode != 2


@pytest.fixture
def agent_socket(tmp_path: Path) -> Iterator[str]:
    """The socket of an ssh-agent."""
    socket = f"{tmp_path}/socket"
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as agent:
        try:
            while not is_reachable(socket):
                assert agent.poll() is None
            yield socket
        finally:
            agent.terminate()


def get_seen(page: ActionPage) -> str:
    """Return the review hash that the page of the job has in its forms."""
    return page.get("/jobs/j1").text.partition('name="seen" value="')[2].partition('"')[0]


def approve(page: ActionPage) -> tuple[int, str]:
    response = page.post("/jobs/j1/decide", decision="approve", revision=page.revision(), seen=get_seen(page))
    return response.status_code, strip_tags(response.text)


def test_a_key_without_a_passphrase_signs(signed: SignedDesk) -> None:
    signed.configure(require="signature")
    page = ActionPage(signed.desk, env=signed.env)
    assert page.do("note", entered="Looks good.") != ""
    assert approve(page)[0] == 303
    assert signed.last()["steward"] == {"name": "ada", "via": "page"}
    ran = signed("job", "verify", "j1")
    assert ran.code == 0, ran.err
    assert "signed by ada@example.org: #5 approve" in ran.out


def test_a_key_in_an_agent_signs(signed: SignedDesk, agent_socket: str) -> None:
    key = str(signed.desk.place / "ada")
    subprocess.run(["ssh-add", "-q", key], env=reach_agent(agent_socket), check=True)
    lock_key(signed)
    signed.configure(require="signature")
    page = ActionPage(signed.desk, env=signed.env | {"SSH_AUTH_SOCK": agent_socket})
    assert approve(page)[0] == 303
    assert "signed by ada@example.org: #4 approve" in signed("job", "verify", "j1").out


def test_a_locked_key_does_not_sign_and_the_page_shows_what_to_type(signed: SignedDesk) -> None:
    lock_key(signed)
    signed.configure(require="signature")
    page = ActionPage(signed.desk, env=signed.env)
    before = (signed.desk.job() / "jobHistory.json").read_bytes()
    seen = get_seen(page)
    status, text = approve(page)
    assert status == 409
    assert "Nothing was decided" in text
    assert "can't sign the decision" in text
    assert f"logist job approve --job j1 --seen {seen}" in text
    assert (signed.desk.job() / "jobHistory.json").read_bytes() == before
    response = page.act("suspend", entered="Wait for Bob's answer")
    assert response.status_code == 409
    typed = """logist job suspend --job j1 --note 'Wait for Bob'"'"'s answer'"""
    assert typed in strip_tags(response.text)
    assert (signed.desk.job() / "jobHistory.json").read_bytes() == before


def test_nobody_is_asked_on_the_terminal_of_the_server(signed: SignedDesk) -> None:
    """With a controlling terminal, on which ssh-keygen would ask otherwise."""
    lock_key(signed)
    signed.configure(require="signature")
    master, slave = pty.openpty()
    code = (
        "from pathlib import Path; from types import SimpleNamespace\n"
        "from tests.web.action_page import ActionPage; from tests.web.test_web_signing import approve\n"
        f"place = Path({str(signed.desk.place)!r})\n"
        f"desk = SimpleNamespace(place=place, home=place / '.logist', env={signed.desk.env!r})\n"
        "page = ActionPage(desk)\n"
        "raise SystemExit(0 if approve(page)[0] == 409 else 1)\n"
    )

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=support.process_environment() | signed.env | {"PYTHONPATH": str(support.ROOT)},
        preexec_fn=take_terminal,
        timeout=support.CRASHED,
        check=False,
    )
    os.set_blocking(master, False)
    os.close(slave)
    try:
        printed = os.read(master, 10_000)
    except (BlockingIOError, OSError):
        printed = b""
    os.close(master)
    assert (ended.returncode, printed) == (0, b"")


def test_a_key_that_waits_for_a_touch_ends_the_attempt(
    signed: SignedDesk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from logist.jobs.steward import signed_decisions

    signed.configure(require="signature")
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "ssh-keygen").write_text("#!/bin/sh\nexec sleep 100\n", "utf-8")
    (bin_dir / "ssh-keygen").chmod(0o755)
    monkeypatch.setattr(signed_decisions, "SIGN_SECONDS", 0.2)
    page = ActionPage(signed.desk, env=signed.env | {"PATH": f"{bin_dir}:{os.environ['PATH']}"})
    status, text = approve(page)
    assert status == 409
    assert "no signature after 0.2 s" in text
    assert signed.last()["kind"] == "ask"


def test_another_person_does_not_sign_with_the_key_of_the_owner(signed: SignedDesk) -> None:
    signed.configure()
    page = ActionPage(signed.desk, env=signed.env, steward="bob")
    assert "which can't sign for bob" in page.read("/jobs/j1")
    before = signed.desk.tree()
    status, text = approve(page)
    assert status == 409
    assert "can't sign the decision: the key is not that of bob" in text
    assert "logist job approve --job j1 --seen" in text
    for name in ("suspend", "cancel", "fail", "note"):
        response = page.act(name, entered="No.")
        assert response.status_code == 409
        assert "To decide in a terminal" in strip_tags(response.text)
    assert signed.desk.tree() == before


def test_an_approval_that_must_be_signed_is_refused_without_a_key_in_the_config(signed: SignedDesk) -> None:
    signed.config.joinpath("config.yaml").write_text("steward: {require: signature}\n", "utf-8")
    page = ActionPage(signed.desk, env=signed.env)
    status, text = approve(page)
    assert status == 409
    assert "approvals must be signed" in text
    assert "logist job approve --job j1 --seen" in text
    assert page.do("suspend") == "Done: j1 is now SUSPENDED"
