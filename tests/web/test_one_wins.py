"""Two people on two pages and one in a terminal decide at once; the server is killed while they do."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from logist.core.machine.kinds import DECISIONS
from tests.cli.desk import Desk
from tests.web.running_server import RunningServer

ROUNDS = 30
STEPS = "- {id: look, execution: manual, prompt: Look.}\n- {id: next, prompt: Go on.}\n"


class Client:
    """A browser of one person, without one."""

    def __init__(self, server: RunningServer, link: str) -> None:
        self._origin = {"Origin": server.address}
        self._client = httpx.Client(base_url=server.address, timeout=60, trust_env=False)
        entered = self._client.post("/enter", data={"key": link.partition("key=")[2]}, headers=self._origin)
        self._prefix = entered.headers["location"].rstrip("/")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def read_revision(self, job_id: str) -> str:
        page = self._client.get(f"{self._prefix}/jobs/{job_id}").text
        return str(re.findall(r'name="revision" value="(\d+)"', page)[0])

    def decide(self, job_id: str, revision: str, decision: str, entered: str) -> httpx.Response:
        fields = {"revision": revision, "decision": decision, "entered": entered}
        return self._client.post(f"{self._prefix}/jobs/{job_id}/decide", data=fields, headers=self._origin)


def make_manual_jobs(desk: Desk, count: int) -> list[str]:
    """Jobs that wait for a person from the beginning."""
    (desk.place / "w.yaml").write_text(f"name: W\nsteps:\n{STEPS}", "utf-8")
    names = [f"job-{number}" for number in range(count)]
    for name in names:
        assert desk("job", "create", "--id", name, "--workflow", "w.yaml").code == 0
    return names


def list_decisions(desk: Desk, job_id: str) -> list[str]:
    kinds = {kind.value for kind in DECISIONS}
    return [
        entry["kind"] for entry in desk.history(job_id) if entry["kind"] in kinds and entry["sequence"] > 1
    ]


@pytest.mark.deep
def test_of_three_people_one_decides_and_the_others_are_told(desk: Desk) -> None:
    jobs = make_manual_jobs(desk, ROUNDS)
    with (
        RunningServer(desk) as server,
        ThreadPoolExecutor(3) as people,
        Client(server, server.link) as ada,
        Client(server, server.create_link("--steward", "bob")) as bob,
    ):
        winners = []
        for job_id in jobs:
            revision = ada.read_revision(job_id)
            together = threading.Barrier(3)

            def act(decide: Callable[[], bool], together: threading.Barrier = together) -> bool:
                together.wait()
                return decide()

            def in_terminal(job_id: str = job_id, revision: str = revision) -> bool:
                ran = desk.process("job", "approve", job_id, "--revision", revision)
                assert ran.code in (0, 4, 8, 9), ran.err
                assert ran.code == 0 or "error: " in ran.err
                return ran.code == 0

            def on_page(
                person: Client, decision: str, text: str, job_id: str = job_id, revision: str = revision
            ) -> bool:
                # The terminal's command takes longer to start: sometimes it is to be the first.
                time.sleep(random.random() / 2)
                answered = person.decide(job_id, revision, decision, text)
                assert answered.status_code in (303, 409, 423), answered.text
                told = (
                    "has changed" in answered.text
                    or "is now" in answered.text
                    or "working on" in answered.text
                    or "the job is busy"
                    in answered.text  # at the moment of another decision: the job is busy
                )
                assert answered.status_code == 303 or told, answered.text
                return answered.status_code == 303

            acts: list[Callable[[], bool]] = [
                in_terminal,
                lambda on_page=on_page: on_page(ada, "approve", ""),  # type: ignore[misc]
                lambda on_page=on_page: on_page(bob, "reject", "The logs are gone."),  # type: ignore[misc]
            ]
            won = list(people.map(act, acts))
            assert won.count(True) == 1, (job_id, won)
            assert len(list_decisions(desk, job_id)) == 1
            assert desk("job", "verify", job_id).code == 0
            winners.append(won.index(True))
    assert len(set(winners)) > 1


def decide_until_killed(person: Client, job_id: str, revision: str, answers: list[int]) -> None:
    with suppress(httpx.TransportError):
        answers.append(person.decide(job_id, revision, "approve", '{"ok": true}').status_code)


@pytest.mark.deep
@pytest.mark.disk
def test_killing_the_server_during_decisions_loses_nothing(desk: Desk) -> None:
    jobs = make_manual_jobs(desk, ROUNDS)
    for job_id in jobs:
        with RunningServer(desk) as server, Client(server, server.link) as person:
            revision = person.read_revision(job_id)
            answers: list[int] = []

            deciding = threading.Thread(target=decide_until_killed, args=(person, job_id, revision, answers))
            deciding.start()
            time.sleep(random.random() / 10)
            server.kill()
            deciding.join()
        assert desk("job", "verify", job_id).code == 0
        decided = list_decisions(desk, job_id)
        assert decided in ([], ["approve"])
        if answers:
            assert (answers, decided) == ([303], ["approve"])  # what was confirmed is there
        if not decided:
            assert desk("job", "approve", job_id, "--output", '{"ok": true}').code == 0
        assert desk.history(job_id)[-1]["command"]["output"] == {"ok": True}
