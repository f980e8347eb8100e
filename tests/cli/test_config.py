"""`logist job config`."""

from __future__ import annotations

import pytest

from tests.cli.desk import Desk, command


def spec(desk: Desk) -> str:
    return (desk.job() / "job.yaml").read_text("utf-8")


def test_without_options_it_is_printed_as_it_is(desk: Desk) -> None:
    desk.create()
    (desk.job() / "job.yaml").write_text("# mine\r\nprompt:   Größe\n\n", "utf-8", newline="")
    before = desk.tree()
    ran = desk("job", "config", "j1")
    assert ran == (0, "# mine\r\nprompt:   Größe\n\n", "")
    assert desk("job", "config", "j1", "--json").json["data"] == {
        "job": "j1",
        "path": str(desk.job() / "job.yaml"),
        "text": "# mine\r\nprompt:   Größe\n\n",
    }
    assert desk.tree() == before


def test_set_keeps_comments_and_is_recorded(desk: Desk) -> None:
    desk.create()
    (desk.job() / "job.yaml").write_text("# What I want.\nprompt: Do it.  # soon\n", "utf-8")
    ran = desk("job", "config", "j1", "--set", "limits.cost_threshold=2000", "--set", "title=A title")
    assert ran.code == 0
    assert spec(desk).startswith("# What I want.\nprompt: Do it.  # soon\n")
    last = desk.history()[-1]
    assert (last["kind"], last["spec"]["limits"]["cost_threshold"]) == ("spec", 2000)
    assert last["command"] == {"changed": ["limits.cost_threshold", "title"]}
    assert desk.state()["title"] == "A title"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Fix #3", "Fix #3"),
        ("Note: this, and that", "Note: this, and that"),
        ("'quoted'", "quoted"),
        ('"5"', "5"),
        ("- dash", "- dash"),
        ("a\nb", "a\nb"),
        ("[unclosed", "[unclosed"),
        ("a = b", "a = b"),
    ],
)
def test_text_is_taken_as_it_is(desk: Desk, text: str, value: str) -> None:
    desk.create()
    assert desk("job", "config", "j1", "--set", f"prompt={text}").code == 0
    assert desk.history()[-1]["spec"]["prompt"] == value


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("rank=-3", "rank", -3),
        ("review=false", "review", False),
        ("tags=[a, b]", "tags", ["a", "b"]),
        ("limits={max_attempts: 7}", "limits.max_attempts", 7),
    ],
)
def test_what_is_no_text_is_read_as_yaml(desk: Desk, setting: str, field: str, value: object) -> None:
    desk.create()
    assert desk("job", "config", "j1", "--set", setting).code == 0
    found = desk.history()[-1]["spec"]
    for key in field.split("."):
        found = found[key]
    assert found == value


def test_unset_brings_the_default_back(desk: Desk) -> None:
    desk.create("j1", "--cost-threshold", "5")
    assert desk("job", "config", "j1", "--unset", "limits.cost_threshold").code == 0
    assert "limits" not in spec(desk)
    assert desk.state()["limits"]["cost_threshold"] == 1000


def test_raising_a_limit_and_resuming(desk: Desk) -> None:
    desk.create("j1", "--max-allowed-iterations", "0")
    assert desk("job", "step", "j1").code == 7
    refused = desk("job", "resume", "j1")
    assert (refused.code, refused.out) == (8, "")
    assert "was not raised" in refused.err
    assert desk("job", "config", "j1", "--set", "limits.max_allowed_iterations=9").code == 0
    assert desk("job", "resume", "j1").code == 0
    assert desk("job", "step", "j1").code == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--set", "rank"], 2, "missing '=' in 'rank'"),
        (["--set", "=1"], 2, "invalid key ''"),
        (["--set", "a..b=1"], 2, "invalid key 'a..b'"),
        (["--unset", "limits."], 2, "invalid key 'limits.'"),
        (["--set", "id=other"], 2, "the id of a job can't be changed"),
        (["--set", "colour=red"], 5, "unknown key `colour`"),
        (["--set", "rank=first"], 5, "rank"),
        (["--set", "limits.cost_threshold=-1"], 5, "limits.cost_threshold"),
        (["--set", "title.short=x"], 5, "title"),
    ],
)
def test_what_does_not_validate_changes_no_byte(desk: Desk, args: list[str], code: int, message: str) -> None:
    desk.create("j1", "--title", "T")
    before = desk.tree()
    ran = desk("job", "config", "j1", *args)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert {name: data for name, data in desk.tree().items() if not name.endswith("/lock")} == {
        name: data for name, data in before.items() if not name.endswith("/lock")
    }


def test_a_half_written_spec_is_shown_but_stops_what_needs_it(desk: Desk) -> None:
    desk.create()
    (desk.job() / "job.yaml").write_text("prompt: [\n", "utf-8")
    before = desk.tree()
    assert desk("job", "config", "j1").out == "prompt: [\n"
    for args in (["job", "step", "j1"], ["job", "preview", "j1"], ["job", "show", "j1"]):
        ran = desk(*args)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err.startswith(f"error: {desk.job() / 'job.yaml'}:2:1: invalid YAML: ")
        assert ran.err.count("\n") == 1
    assert desk.tree() == before
    assert desk("job", "poststep", "j1", "--response-string", command()).code == 5
    assert desk("job", "cancel", "j1").code == 0


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_spec_that_cannot_be_read(desk: Desk, content: bytes | None) -> None:
    desk.create()
    (desk.job() / "job.yaml").unlink()
    if content is not None:
        (desk.job() / "job.yaml").write_bytes(content)
    ran = desk("job", "config", "j1")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith(f"error: {desk.job() / 'job.yaml'}:")


def test_a_limit_that_is_reached_already_is_reported(desk: Desk) -> None:
    """The job would halt at its next step without a reason that its owner expects."""
    desk.create("j1")
    assert desk("job", "poststep", "j1", "--response-string", command(), "--charge", "5").code == 0
    raised = desk("job", "config", "j1", "--set", "limits.cost_threshold=9")
    assert (raised.code, raised.err) == (0, "")
    low = desk("job", "config", "j1", "--set", "limits.cost_threshold=2")
    assert low.code == 0
    assert (
        low.err
        == "warning: cost limit: $0.05 of $0.02 spent: the next step halts the job unless you raise the limit\n"
    )
    runs = desk(
        "job", "config", "j1", "--set", "limits.cost_threshold=9", "--set", "limits.max_allowed_iterations=0"
    )
    assert "warning: iteration limit: 0 of 0 runs used: the next step" in runs.err
    assert desk("job", "config", "j1", "--set", "title=Another").err == ""
