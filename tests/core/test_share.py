"""Taking what is private out of a history: nothing of it survives, in no spelling, and all else stays as it was."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logist.core.answer.exit_command import judge_answer
from logist.core.model import JsonObject
from logist.core.share import Private, Replacing, changed, leaks, texts
from logist.core.share.standins import StandIns
from logist.resources import load_schema
from tests.support import examples

SCHEMA = load_schema("llm-chat-schema")
KEY = "sk-" + "proj-aB3dE6gH9jK2mN5pQ8sT"
ANSWER = json.dumps(
    {
        "action": "COMPLETED",
        "evidence_files": ["src/ada/report.py"],
        "summary_for_supervisor": 'Read\nada\'s "notes" on box-7.corp.internal, see /home/ada/notes/Größe.txt.',
        "output": {
            "ada": "ada@corp.example.com",
            "ticket": "ACME-1234",
            "at": "http://box-7.corp.internal/x",
        },
    }
)
PROMPT = "You are a worker.\n\n---\n\nAda wants ACME-1234 done in /home/ada/notes."


def entry() -> JsonObject:
    """An interaction with a text in each of its fields."""
    parts = [(0, 17, "contract"), (24, len(PROMPT), "task")]
    return {
        "sequence": 2,
        "version": 1,
        "timestamp": "2026-01-02T03:04:05Z",
        "kind": "ask",
        "actor": "agent",
        "state_before": "PENDING",
        "state_after": "REVIEW_REQUIRED",
        "workspace_path": "/home/ada/jobs/j/workspace",
        "step": "task",
        "reason": "because",
        "request": {
            "prompt": PROMPT,
            "files_context": ["src/ada/report.py"],
            "metadata": {"role": "Worker", "user_start": 24, "note of ada": "x"},
            "parts": [
                {"source": source, "kind": "rule", "sha256": "0" * 64, "start": start, "end": end}
                for start, end, source in parts
            ],
        },
        "response": {
            "status": "SUCCESS",
            "actions": ["COMPLETED"],
            "evidence_files": ["src/ada/report.py"],
            "summary_for_supervisor": json.loads(ANSWER)["summary_for_supervisor"],
            "raw_response": ANSWER,
            "output": json.loads(ANSWER)["output"],
            "warnings": ["w"],
        },
        "route": [{"decision": "d", "values": {"output.score": "1"}}],
        "checkpoint_before": "a" * 40,
        "observed": {
            "phase": "doer",
            "role": "Worker",
            "evidence": [{"path": "src/ada/report.py", "exists": True, "sha256": "b" * 64}],
            "changes": [{"path": "src/ada/report.py", "kind": "created", "mode": "100644"}],
            "refusals": [{"message": "m"}],
        },
        "steward": {"name": "ada", "note": "n"},
        "command": {"limit": "l", "deep": [{"er": "e"}]},
        "spec": {"title": "t", "prompt": "p", "roles": {"Worker": "c" * 64}, "input": {"k": "v"}},
        "after": {"status": "REVIEW_REQUIRED", "step": "task", "stuck": {"reason": "r"}},
    }


def shared(
    entries: Sequence[JsonObject], known: Sequence[str] = (), patterns: Sequence[str] = ()
) -> tuple[list[JsonObject], Replacing]:
    """The interactions as an export makes them."""
    private = Private(
        dict.fromkeys(known, "known value"), [re.compile(each) for each in patterns], ["hermes.lan.example"]
    )
    clean = []
    for each in entries:
        clean.append(not private.line(json.dumps(each, ensure_ascii=False, separators=(",", ":"))))
        for field in texts(each):
            private.text(field.text)
        private.user(each["steward"]["name"])
    replacing, searching = (Replacing({"/home/ada/jobs/j": "${JOB_DIR}"}, private) for _ in range(2))
    done = [
        changed(each, replacing, {}, is_clean=is_clean) for each, is_clean in zip(entries, clean, strict=True)
    ]
    assert done == [changed(each, searching, {}) for each in entries], "a second search finds nothing more"
    return [changed(each, replacing, {}) for each in done], replacing


def strings(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where the texts of a value are."""
    if isinstance(value, str):
        return [path]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, inner in pairs for found in strings(inner, (*path, key))]


def planted(place: tuple[str | int, ...], text: str, at: int) -> JsonObject:
    """The interaction with `text` put into one of its fields."""
    whole = entry()
    value: Any = whole
    for key in place[:-1]:
        value = value[key]
    old = value[place[-1]]
    cut = at % (len(old) + 1)
    value[place[-1]] = f"{old[:cut]} {text} {old[cut:]}"
    return whole


def _halves(text: str, between: str) -> str:
    return text[: len(text) // 2] + between + text[len(text) // 2 :]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": lambda text: json.dumps(text)[1:-1],
    "in JSON as it is": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "in JSON in JSON": lambda text: json.dumps(json.dumps({"a": f"x {text}"}))[1:-1],
    "in escapes": lambda text: "".join(f"\\u{ord(sign):04x}" if ord(sign) < 128 else sign for sign in text),
    "in base64": _base64,
    "in base64 after more": lambda text: _base64(f"x{text}yz"),
    "in base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "in hex": lambda text: text.encode().hex(),
    "in an address": lambda text: quote(text, safe=""),
    "in HTML": html.escape,
    "over two lines": lambda text: _halves(text, "\n"),
    "over indented lines": lambda text: _halves(text, "\n    "),
    "in base64 over two lines": lambda text: _halves(_base64(text), "\n"),
}
PLACES = strings(entry())
SECRETS = st.text(
    st.sampled_from(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!$%&/?=+*#-_.:~\"'\\{}é漢"
    ),
    min_size=10,
    max_size=40,
).filter(lambda text: len(set(text)) > 5)


@given(
    SECRETS,
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(sorted(SPELLINGS)), st.integers(0, 500)),
        min_size=1,
        max_size=6,
    ),
)
@settings(max_examples=examples(25), deadline=None)
@example("abcde\\fghij2", [(("reason",), "over two lines", 0)])
@example(KEY, [(place, "as it is", 3) for place in PLACES])
def test_no_secret_survives_in_any_field_and_spelling(
    secret: str, plants: list[tuple[tuple[str | int, ...], str, int]]
) -> None:
    history = [planted(place, SPELLINGS[spelling](secret), at) for place, spelling, at in plants]
    done, _ = shared(history, [secret])
    forms = {SPELLINGS[name](secret) for name in SPELLINGS if "lines" not in name and "after" not in name}
    for number, each in enumerate(done):
        line = json.dumps(each, ensure_ascii=False)
        assert [*leaks(each, line, {secret: "planted"})] == []
        for field in texts(each):
            assert not [form for form in forms if form in field.text], plants[number]


def test_a_secret_that_only_looks_like_one_is_gone_everywhere_once_it_was_seen() -> None:
    """Behind `password` it is one by its looks; elsewhere nothing tells that but the first."""
    history = [
        planted(("reason",), '"password": "tr0ub4dor-3xyz"', 0),
        planted(("spec", "title"), "tr0ub4dor-3xyz", 0),
    ]
    done, _ = shared(history)
    assert "tr0ub4dor" not in json.dumps(done)


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        ("mail bob@corp.example.com now", ["bob", "corp", "example"], ["mail ", ".com now"]),
        ("mail b.obb+x@corp.de, and not bob@box", ["obb", "corp"], ["mail ", ".de, and not bob@box"]),
        ("from=bob%40corp.example.com&x", ["bob", "corp"], ["from=", ".com&x"]),
        ("inet addr:192.168.1.5 ::ffff:10.1.2.3", ["192.168.1.5", "10.1.2.3"], ["inet addr:", " ::ffff:"]),
        ("from 10.20.0.7 and fe80::1f, [2001:db8::7]:80", ["10.20.0.7", "fe80::1f", "db8"], ["from ", " and ", "]:80"]),
        ("2001:db8:0:0:0:0:0:1 is up", ["2001", "db8"], [" is up"]),
        ("/home/bob/x.py:3: says Bob, not bobbin", ["bob/", "Bob,"], ["/home/", "/x.py:3: says ", " not bobbin"]),
        ("/Users/bob", ["bob"], ["/Users/"]),
        ("/home/ab/x", ["ab"], ["/home/", "/x"]),
        ("gcc -I/home/bob/inc", ["bob"], ["gcc -I/home/", "/inc"]),
        ("ls ~bob/x ~/y", ["bob"], ["ls ~", "/x ~/y"]),
        ("%2Fhome%2Fbob%2Fx", ["bob"], ["%2Fhome%2F", "%2Fx"]),
        (r"C:\Users\Bob\x.txt C:\\Users\\Zoe\\y", ["Bob", "Zoe"], ["C:\\Users\\", "x.txt ", "y"]),
        ("/home/h\u00e9lo\u00efse/x he\u0301loi\u0308se", ["se/x", "loi"], ["/"]),
        ("Hermes says hermes-x, hermes.lan.example", ["Hermes", "hermes", "lan"], [" says ", "-x"]),
        ("Ada and ADA, not adapter", ["Ada ", "ADA"], ["not adapter"]),
        ("'two\\nada'", ["ada"], ["'two\\n"]),
        (r"'two\n/home/bob/x\nbob@corp.de\n10.2.3.4'", ["bob", "corp", "10.2"], [r"'two\n/home/", r"\n"]),
        ("ticket ACME-77 open", ["ACME", "77"], ["ticket ", "-", " open"]),
    ],
)  # fmt: skip
def test_what_is_promised_goes(text: str, gone: list[str], kept: list[str]) -> None:
    done, _ = shared([entry() | {"reason": text}], patterns=[r"ACME-\d+"])
    found = done[0]["reason"]
    assert not [word for word in gone if word in found], found
    assert all(word in found for word in kept), found
    assert len(found) == len(text)


PRIVATE = {
    "user": ("/home/bob/x", "bob"),
    "steward": ("ada", "ada"),
    "host": ("hermes", "hermes"),
    "email": ("bob@quux.example.com", "quux"),
    "address": ("10.20.30.40", "10.20.30.40"),
    "pattern": ("ACME-77", "ACME-77"),
    "secret": (KEY, KEY),
}


@pytest.mark.parametrize("kind", PRIVATE)
def test_it_goes_in_names_of_files_in_keys_and_inside_escapes(kind: str) -> None:
    text, gone = PRIVATE[kind]
    whole = entry()
    whole["observed"]["changes"][0]["path"] = f"src/{text}/x.py"
    whole["response"]["evidence_files"] = [f"src/{text}/x.py"]
    whole["response"]["output"] = {text: {"deep": [f"{text}\n"]}}
    whole["response"]["raw_response"] = json.dumps({"said": json.dumps({"x": f"a\n{text}\n"})})
    whole["reason"] = text if kind != "user" else gone  # found as an owner once, it goes everywhere
    done, _ = shared([whole], patterns=[r"ACME-\d+"])
    assert gone not in json.dumps(done).replace("metadata", "")
    now = done[0]
    assert now["response"]["evidence_files"] == [now["observed"]["changes"][0]["path"]]
    ((key, value),) = now["response"]["output"].items()
    assert value == {"deep": [f"{key}\n"]}
    assert json.loads(json.loads(now["response"]["raw_response"])["said"]) == {"x": f"a\n{key}\n"}


@pytest.mark.parametrize(
    "text",
    [
        "and/or 1/2, 12:30:45, v1.2.3.4, std::vector, </div>, input.com, 50%, a@b",
        "src/app.py:3 in self.app.run(os.path), http://localhost:80/x 127.0.0.1",
        "COMPLETED action evidence_files status",
        "x[1::2] y[10::20] threading.local() Path.home() pattern.test(s)",
        r"regex \\d+\\.\\w \\bfoo\\s+bar\\b sha256:1234 utf-8:8000 2026-11:2026",
        "by ssh: npm i package@latest, package@1.2.3",
        "[redacted] ${JOB_DIR}/workspace /home/user/x /usr/bin/env src/home/page",
        "-rw-r--r-- 1 carol staff 12 Jan 1 /srv/acme/x on db-3.corp.internal",
    ],
)
def test_what_is_not_promised_stays(text: str) -> None:
    assert shared([entry() | {"reason": text}])[0][0]["reason"] == text


def test_an_address_is_no_other_one_afterwards() -> None:
    done, _ = shared([entry() | {"reason": "1.2.3.4 is not 0.0.0.0, nor 1.2.3.5"}])
    first, second = re.findall(r"[0-9.]+(?= is|$)", done[0]["reason"])
    assert len({first, second, "0.0.0.0"}) == 3


def test_an_answer_still_says_what_its_fields_say() -> None:
    done, _ = shared([entry()], patterns=["(?i:acme)-(?P<secret>[0-9]+)"])
    response = done[0]["response"]
    command = judge_answer(response["raw_response"], SCHEMA).command
    assert command is not None
    assert [*command.evidence_files] == response["evidence_files"] == done[0]["request"]["files_context"]
    assert response["evidence_files"] == [each["path"] for each in done[0]["observed"]["evidence"]]
    assert (command.summary, command.output) == (response["summary_for_supervisor"], response["output"])
    assert response["output"]["ticket"] == "ACME-1" + "001"
    assert "ada" not in json.dumps(done).lower().replace("metadata", "")


def test_the_parts_of_a_prompt_are_found_where_they_are_now() -> None:
    long = entry()
    long["request"]["prompt"] = PROMPT.replace("notes", "jobs/j/workspace")
    long["request"]["parts"][1]["end"] = len(long["request"]["prompt"])
    request = shared([long])[0][0]["request"]
    prompt = request["prompt"]
    first, second = request["parts"]
    assert prompt[first["start"] : first["end"]] == "You are a worker."
    assert prompt[second["start"] : second["end"]] == "Uua wants ACME-1234 done in ${JOB_DIR}/workspace."
    assert request["metadata"]["user_start"] == second["start"]
    for part in request["parts"]:
        text = prompt[part["start"] : part["end"]]
        assert part["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_what_the_format_needs_stays_and_hashes_of_files_go() -> None:
    done, _ = shared([entry()])
    was = entry()
    for name in (
        "sequence",
        "timestamp",
        "kind",
        "actor",
        "state_before",
        "state_after",
        "checkpoint_before",
    ):
        assert done[0][name] == was[name]
    assert [*done[0]] == [*was]
    assert done[0]["observed"]["evidence"][0]["sha256"] == "0" * 63 + "1"
    assert done[0]["spec"]["roles"] == was["spec"]["roles"]


def test_without_private_values_only_the_paths_of_the_job_change() -> None:
    done = changed(entry(), Replacing({"/home/ada/jobs/j": "${JOB_DIR}"}), {})
    assert done["workspace_path"] == "${JOB_DIR}/workspace"
    assert {name: value for name, value in done.items() if name not in ("workspace_path", "request")} == {
        name: value for name, value in entry().items() if name not in ("workspace_path", "request")
    }
    assert done["request"]["prompt"] == PROMPT


def test_an_answer_recorded_late_names_the_new_hash() -> None:
    late = entry() | {"exchange": "d" * 64}
    assert changed(late, Replacing({}), {"d" * 64: "e" * 64})["exchange"] == "e" * 64


@given(
    st.lists(st.text(min_size=1, max_size=12), max_size=30),
    st.sampled_from(["user", "host", "email", "pattern"]),
)
@settings(max_examples=examples(30), deadline=None)
@example(["1", "2", "11", "12", "13", "14"], "email")
def test_stand_ins_are_as_long_apart_and_the_same_again(values: list[str], kind: Any) -> None:
    one, two = StandIns(values), StandIns(values)
    words = [value for value in values if value.isalnum() and value == value.lower()]
    found = {word: one.word(kind, word) for word in words}
    assert [one.word(kind, word) for word in words] == [two.word(kind, word) for word in words]
    assert [len(new) for new in found.values()] == [len(word) for word in found]
    assert len(set(found.values())) == len(found)
    assert not set(found.values()) & set(values)


def test_a_secret_of_digits_stays_a_number() -> None:
    whole = entry()
    whole["response"]["output"] = {"id": 4711081500001234}
    whole["response"]["raw_response"] = '{"id": 4711081500001234}'
    done, _ = shared([whole], ["4711081500001234"])
    response = done[0]["response"]
    assert json.loads(response["raw_response"]) == response["output"] != {"id": 4711081500001234}


@pytest.mark.parametrize("piece", ['\\"', "a.", "/a", "a@", "::", "1.", "~a", "://"])
def test_a_hostile_text_takes_no_longer_than_another(piece: str) -> None:
    """Of the length of an answer: where a search looked back over all of it, this would take minutes."""
    text = piece * (200_000 // len(piece))
    began = time.process_time()
    private = Private({})
    private.text(text)
    assert len(Replacing({}, private).text(text)) == len(text)
    assert time.process_time() - began < 10
