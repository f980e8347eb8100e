"""The recipes of docs/notifications.md, exactly as they are on the page, against servers on this machine."""

from __future__ import annotations

import email
import email.policy
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.desk import Desk, answer, command
from tests.raw_server import RawServer
from tests.support import ROOT, RunLogist

PAGE = (ROOT / "docs" / "notifications.md").read_text("utf-8")
RECIPES = dict(re.findall(r"`(notify-\w+)` needs .*?^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
ANSWERED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REASON = "Which <!channel> & @everyone?\nx"


@pytest.fixture
def desk(tmp_path: Path, cli: RunLogist) -> Desk:
    return Desk(tmp_path / "project", cli)


def notify(desk: Desk, recipe: str, variables: dict[str, str]) -> None:
    """Make a job STUCK where `notify.stuck` is the recipe."""
    script = desk.place / recipe
    script.write_text(RECIPES[recipe], "utf-8")
    config = desk.place / "user"
    (config / "logist").mkdir(parents=True)
    notifying = {"stuck": ["/usr/bin/env", "python3", str(script)], "environment": list(variables)}
    (config / "logist" / "config.yaml").write_text(json.dumps({"notify": notifying}), "utf-8")
    desk.script(answer(command("STUCK", summary=REASON)))
    desk.create("fix")
    ran = desk("job", "step", "fix", env={"XDG_CONFIG_HOME": str(config), **variables})
    assert (ran.code, "command failed" in ran.err) == (3, False), ran.err


def test_every_recipe_is_tested() -> None:
    assert set(RECIPES) == {"notify-ntfy", "notify-slack", "notify-discord", "notify-mail"}


def test_ntfy(desk: Desk) -> None:
    with RawServer(ANSWERED) as server:
        url = f"http://127.0.0.1:{server.port}/secret-topic"
        notify(desk, "notify-ntfy", {"NTFY_URL": url, "NTFY_TOKEN": "tk_secret"})
    (asked,) = server.asked
    assert asked.line.startswith("POST /secret-topic ")
    assert asked.headers["authorization"] == "Bearer tk_secret"
    assert asked.body.decode() == "fix is STUCK: Which <!channel> & @everyone? x\nlogist job show --job fix"


def test_slack(desk: Desk) -> None:
    with RawServer(ANSWERED) as server:
        notify(
            desk, "notify-slack", {"SLACK_WEBHOOK_URL": f"http://127.0.0.1:{server.port}/services/T/B/secret"}
        )
    (asked,) = server.asked
    assert json.loads(asked.body) == {
        "text": "fix is STUCK: Which &lt;!channel&gt; &amp; @everyone? x\nlogist job show --job fix",
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    assert asked.line.startswith("POST /services/T/B/secret ")


def test_discord(desk: Desk) -> None:
    with RawServer(ANSWERED) as server:
        notify(
            desk,
            "notify-discord",
            {"DISCORD_WEBHOOK_URL": f"http://127.0.0.1:{server.port}/api/webhooks/1/x"},
        )
    body = json.loads(server.asked[0].body)
    assert body == {
        "content": "fix is STUCK: Which <!channel> & @everyone? x\nlogist job show --job fix",
        "allowed_mentions": {"parse": []},
        "flags": 4,
    }


class MailServer:
    """The least of an SMTP server that takes one mail."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.recipients: list[str] = []
        self.mail = b""

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rwb") as stream:
            self._talk(stream, b"220 here")
            for line in stream:
                verb = line[:4].upper()
                if verb == b"RCPT":
                    self.recipients.append(line.decode().strip())
                if verb == b"DATA":
                    self._talk(stream, b"354 go on")
                    self.mail = b"".join(self._read_mail(stream))
                self._talk(stream, b"221 bye" if verb == b"QUIT" else b"250 ok")
                if verb == b"QUIT":
                    return

    @staticmethod
    def _talk(stream: object, line: bytes) -> None:
        stream.write(line + b"\r\n")  # type: ignore[attr-defined]
        stream.flush()  # type: ignore[attr-defined]

    @staticmethod
    def _read_mail(stream: object) -> Iterator[bytes]:
        for line in stream:  # type: ignore[attr-defined]
            if line == b".\r\n":
                return
            yield line


def test_mail(desk: Desk) -> None:
    server = MailServer()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    notify(
        desk,
        "notify-mail",
        {
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(server.port),
            "MAIL_FROM": "l@example.org",
            "MAIL_TO": "ada@example.org",
        },
    )
    thread.join(10)
    server.listener.close()
    mail = email.message_from_bytes(server.mail, policy=email.policy.default)
    assert [text.lower() for text in server.recipients] == ["rcpt to:<ada@example.org>"]
    assert mail["Subject"] == "fix is STUCK: Which <!channel> & @everyone? x"
    content = mail.get_body().get_content().replace("\r\n", "\n")  # type: ignore[union-attr]
    assert content.endswith("To see it: logist job show --job fix\n")
