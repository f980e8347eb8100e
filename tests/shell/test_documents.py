"""Files people write: what is read, what is refused and where, and edits that leave the rest alone."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from logist.core.model import JobSpec
from logist.documents import (
    MAX_BYTES,
    Document,
    dump_yaml,
    edit_text,
    parse_document,
    read_document,
    suggest_names,
    validate_document,
)
from logist.documents.editing import dump_any_yaml
from logist.errors import InvalidFile
from logist.quick_model import AfterValidator, BaseModel, ConfigDict, Field


def written(data: dict[str, Any], flow: bool | None) -> str:
    """The values in YAML as another program writes them."""
    yaml = YAML()
    yaml.default_flow_style = flow
    yaml.indent(mapping=4, sequence=4, offset=2)
    buffer = io.StringIO()
    yaml.dump(data, buffer)
    return buffer.getvalue()


def refused(text: str, name: str = "x.yaml") -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        parse_document(text, name)
    return caught.value


class TestValues:
    @pytest.mark.parametrize(
        ("written", "value"),
        [
            ("12", 12),
            ("010", 10),
            ("-3", -3),
            ("0o17", 15),
            ("0x1F", 31),
            ("1.5", 1.5),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("true", True),
            ("False", False),
            ("null", None),
            ("~", None),
            ("", None),
            ("no", "no"),
            ("on", "on"),
            ("1_000", "1_000"),
            ("1:30", "1:30"),
            ("2024-01-31", "2024-01-31"),
            ("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z"),
            ("'12'", "12"),
            ('"null"', "null"),
            ("''", ""),
            ("<<", "<<"),
            ("=", "="),
            ('"\\ud83d\\ude00"', "\U0001f600"),
            ("[1, [a], {b: c}]", [1, ["a"], {"b": "c"}]),
            ("|\n  one\n  two\n", "one\ntwo\n"),
            (">-\n  one\n  two\n", "one two"),
        ],
    )
    def test_yaml_1_2_as_plain_python(self, written: str, value: object) -> None:
        found = parse_document(f"a: {written}", "x.yaml").data["a"]
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n# nothing\n...\n"])
    def test_an_empty_yaml_file_is_an_empty_mapping(self, text: str) -> None:
        assert parse_document(text, "x.yaml").data == {}

    def test_json_as_plain_python(self) -> None:
        data = {"a": [1, -2.5, 1e3, True, None, {"b": "ü\n\U0001f600\\/ , : {"}], "": {}, "c": []}
        for indent in (None, 2):
            for ascii_only in (True, False):
                text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
                assert parse_document(text, "x.json").data == data

    def test_a_byte_order_mark_is_no_part_of_the_text(self, tmp_path: Path) -> None:
        for name, text in (("a.yaml", "a: 1"), ("a.json", '{"a": 1}')):
            (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
            assert read_document(tmp_path / name).data == {"a": 1}

    @pytest.mark.parametrize(
        ("name", "text", "as_json"),
        [
            ("x.json", "a: 1", True),
            ("x.JSON", "a: 1", True),
            ("x.yaml", '{"a": 1,}', False),
            ("x.yml", "{a: 1}", False),
            ("-", "a: 1", False),
            ("-", ' \n{"a": 1,}', True),
            ("spec.txt", "{a: 1}", True),
        ],
    )
    def test_the_suffix_or_else_the_first_character_tells_json_from_yaml(
        self, name: str, text: str, as_json: bool
    ) -> None:
        if as_json:
            assert "invalid JSON" in refused(text, name).message
        else:
            assert parse_document(text, name).data == {"a": 1}


class TestLines:
    YAML = "a: 1\nlimits:\n  # note\n  cost: 2\nsteps:\n  - name: x\n  -\n    name: y\n    role: z\n"

    def test_yaml(self) -> None:
        assert parse_document(self.YAML, "x.yaml").lines == {
            "": 1,
            "a": 1,
            "limits": 2,
            "limits.cost": 4,
            "steps": 5,
            "steps[0]": 6,
            "steps[0].name": 6,
            "steps[1]": 8,
            "steps[1].name": 8,
            "steps[1].role": 9,
        }

    def test_json(self) -> None:
        text = '{\n  "a": 1,\n  "steps": [\n    {"name": "x\\n"},\n    {\n      "role": "z"}]\n}'
        assert parse_document(text, "x.json").lines == {
            "": 1,
            "a": 2,
            "steps": 3,
            "steps[0]": 4,
            "steps[0].name": 4,
            "steps[1]": 5,
            "steps[1].role": 6,
        }


REFUSED_YAML = [
    ("a: &x 1\nb: *x\n", "1:4", "anchors"),
    ("b: *x\n", "1:4", "aliases"),
    ("a: !!python/object:os.system x\n", "1:4", "tags"),
    ("a: !mine\n  b: 1\n", "1:4", "tags"),
    ("a: !!str 1\n", "1:4", "tags"),
    ("x: 0\na: 1\na: 2\n", "3:1", "`a`: already defined on line 2"),
    ("l:\n  - {b: 1, b: 2}\n", "2:12", "`l[0].b`: already defined on line 2"),
    ("1: x\n", "1:1", 'keys must be text, not 1: write it in quotes: "1"'),
    ("a:\n  true: x\n", "2:3", "keys must be text, not true"),
    ("~: x\n", "1:1", "keys must be text, not null"),
    ("? [a]\n: x\n", "1:3", "keys must be text"),
    ("? {a: 1}\n: x\n", "1:3", "keys must be text"),
    ("- a\n", "1", "must be a mapping"),
    ("just text\n", "1", "must be a mapping"),
    ("a: 1\n---\nb: 1\n", "2:1", "must contain only one YAML document"),
    ("a: [1\n", "2:1", "invalid YAML"),
    ("a: b: c\n", "1:5", "invalid YAML"),
    ("a:\n\tb: 1\n", "2:1", "cannot start any token"),
    ("a: 1\nb: \x01\n", "2:4", "U+0001"),
    ('a: "\\UFFFFFFFF"\n', "", "invalid YAML"),
    ('a: "\\ud800x"\n', "1:4", "half of a surrogate pair"),
    ('"\\udc00": x\n', "1:1", "half of a surrogate pair"),
    ("a:\n  b: .nan\n", "2:6", "`a.b` must be a finite number"),
    ("a: -.inf\n", "1:4", "`a` must be a finite number"),
    ("a: 1e999\n", "1:4", "`a` must be a finite number"),
    (f"a: {'9' * 5000}\n", "1:4", "the number has too many digits"),
    (f"a: 0x{'9' * 5000}\n", "1:4", "the number has too many digits"),
    (f"a: {'[' * 65}{']' * 65}\n", "1:68", "nested more than 64 levels"),
    (f"a: {'[' * 100_000}", "1:68", "nested more than 64 levels"),
]
REFUSED_JSON = [
    ("", "1:1", "invalid JSON"),
    ("[1]", "1", "must be a mapping"),
    ('"a"', "1", "must be a mapping"),
    ('{"a": 1\n"b": 2}', "2:1", "invalid JSON"),
    ('{"a": 1} x', "1:10", "invalid JSON"),
    ("{'a': 1}", "1:2", "invalid JSON"),
    ('{"a": 1, // no\n"b": 2}', "1:10", "invalid JSON"),
    ('{"b": {\n  "a": 1,\n  "a": 1}}', "3:3", "`b.a`: already defined on line 2"),
    ('{"a": NaN}', "1:7", "`a` must be a finite number"),
    ('{"a": [1, -Infinity]}', "1:11", "`a[1]` must be a finite number"),
    ('{"a": 1e999}', "1:7", "`a` must be a finite number"),
    ('{"a": "\\ud800"}', "1:7", "half of a surrogate pair"),
    (f'{{"a": {"9" * 5000}}}', "1:7", "the number has too many digits"),
    (f'{{"a": {"[" * 65}{"]" * 65}}}', "1:71", "nested more than 64 levels"),
    ('{"a":' * 100_000, "", "nested more than 64 levels"),
]


class TestRefusals:
    @pytest.mark.parametrize(("text", "place", "message"), REFUSED_YAML)
    def test_yaml(self, text: str, place: str, message: str) -> None:
        error = refused(text)
        assert error.where == (f"x.yaml:{place}" if place else "x.yaml")
        assert message in error.message

    @pytest.mark.parametrize(("text", "place", "message"), REFUSED_JSON)
    def test_json(self, text: str, place: str, message: str) -> None:
        error = refused(text, "x.json")
        assert error.where == (f"x.json:{place}" if place else "x.json")
        assert message in error.message

    def test_tabs_come_with_advice(self) -> None:
        assert refused("a:\n\tb: 1\n").fix == "indent with spaces, not tabs"

    def test_sixty_four_levels_are_fine(self) -> None:
        assert parse_document(f"a: {'[' * 63}{']' * 63}", "x.yaml").data
        assert parse_document(f'{{"a": {"[" * 63}{"]" * 63}}}', "x.json").data

    @given(st.text(max_size=60) | st.text("{}[]:,-#&*!|>'\"\\ \n\tab01.~%?", max_size=40))
    def test_no_text_gives_any_other_error(self, text: str) -> None:
        for name in ("x.yaml", "x.json", "-"):
            try:
                parse_document(text, name)
            except InvalidFile as error:
                where = str(error.where)
            else:
                where = name
            assert where.startswith(name)

    @pytest.mark.deep
    def test_the_size_is_capped(self, tmp_path: Path) -> None:
        fits = "a: " + "x" * (MAX_BYTES - 3)
        (tmp_path / "fits.yaml").write_text(fits, "utf-8")
        assert len(read_document(tmp_path / "fits.yaml").data["a"]) == MAX_BYTES - 3
        (tmp_path / "big.yaml").write_text(fits + "x", "utf-8")
        with pytest.raises(InvalidFile, match=r"larger than 1,048,576 bytes"):
            read_document(tmp_path / "big.yaml")
        assert "larger than" in refused(fits + "x").message
        assert "larger than" in refused("a: " + "ü" * (MAX_BYTES // 2)).message

    def test_a_senseless_file_is_read_only_to_the_cap(self, tmp_path: Path) -> None:
        with open(tmp_path / "huge.yaml", "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(InvalidFile, match="larger than"):
            read_document(tmp_path / "huge.yaml")

    def test_what_is_no_file_is_refused_at_once(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as held:
            held.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("pipe")
        for name in (tmp_path / "pipe", tmp_path / "socket", tmp_path / "link", Path("/dev/zero")):
            with pytest.raises(InvalidFile, match="can't read the file: not a regular file"):
                read_document(name)

    def test_what_the_shell_has_opened_is_read(self) -> None:
        reading, writing = os.pipe()
        os.write(writing, b"a: 1\n")
        os.close(writing)
        try:
            assert read_document(Path(f"/dev/fd/{reading}")).data == {"a": 1}
        finally:
            os.close(reading)

    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "loop.yaml").symlink_to("loop.yaml")
        for name, why in (("none.yaml", "No such file"), (".", "directory"), ("loop.yaml", "symbolic links")):
            with pytest.raises(InvalidFile, match=why) as caught:
                read_document(tmp_path / name)
            assert caught.value.where == os.fspath(tmp_path / name)

    def test_bytes_that_are_no_utf_8(self, tmp_path: Path) -> None:
        path = tmp_path / "latin.yaml"
        path.write_bytes(b"a: 1\nb: f\xfcr\n")
        with pytest.raises(InvalidFile, match="not valid UTF-8") as caught:
            read_document(path)
        assert caught.value.where == f"{path}:2:5"


class Step(BaseModel):
    model_config = ConfigDict(extra="forbid")
    agentRole: Annotated[str, Field(min_length=2)]  # noqa: N815 - as the workflow files spell it
    tries: int | None = None


class Bounds(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cost_threshold: Annotated[float, Field(ge=0)] = 1


def refuse_shouting(title: str) -> str:
    if title.isupper():
        raise ValueError("is shouted")
    return title


class Plan(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: Annotated[str, AfterValidator(refuse_shouting)]
    limits: Bounds = Bounds()
    steps: tuple[Step, ...] = ()
    named: dict[str, Step] = Field(default_factory=dict)
    mode: Literal["fast", "slow"] = "fast"
    wait: Literal["yes"] | bool | None = None
    words: list[str] | str = ""


WRONG: list[tuple[str, int, str, str | None]] = [
    ("limits: {}", 1, "`title` is missing", None),
    ("title: 5", 1, "`title` must be text, not 5", None),
    ("title:", 1, "`title` must be text, not empty", None),
    ("title: [x]", 1, "`title` must be text, not a list", None),
    ("title: LOUD", 1, "`title` is shouted, not \"LOUD\"", None),
    ("title: t\ntitel: u", 2, "unknown key `titel`", "did you mean `title`?"),
    ("title: t\nTITLE: u", 2, "unknown key `TITLE`", "did you mean `title`?"),
    ("title: t\nzzz: u", 2, "unknown key `zzz`", "known: limits, mode, named, steps, title, wait, words"),
    ("title: t\nlimits: 5", 2, "`limits` must be a mapping, not 5", None),
    ("title: t\nlimits:\n  cost_threshold: -1", 3, "`limits.cost_threshold` must be at least 0, not -1", None),
    ("title: t\nlimits:\n  cost_threshold: x", 3, '`limits.cost_threshold` must be a number, not "x"', None),
    ("title: t\nlimits:\n  cost_threshold: true", 3, "`limits.cost_threshold` must be a number, not true", None),
    ("title: t\nlimits:\n  cost_treshold: 1", 3, "unknown key `limits.cost_treshold`", "did you mean `cost_threshold`?"),
    ("title: t\nsteps: x", 2, '`steps` must be a list, not "x"', None),
    ("title: t\nsteps:\n  - {agentRole: ab}\n  - tries: 1", 4, "`steps[1].agentRole` is missing", None),
    ("title: t\nsteps:\n  - agentRole: ab\n    tries: x", 4, '`steps[0].tries` must be an integer, not "x"', None),
    ("title: t\nsteps:\n  - agentRole: ab\n    tries: 1.5", 4, "`steps[0].tries` must be an integer, not 1.5", None),
    ("title: t\nsteps:\n  - agentRole: a", 3, '`steps[0].agentRole` must be text of at least 2 characters, not "a"', None),
    ("title: t\nsteps:\n  - agentrole: ab", 3, "unknown key `steps[0].agentrole`", "did you mean `agentRole`?"),
    ("title: t\nsteps:\n  - agentRole: ab\n    trys: 1", 4, "unknown key `steps[0].trys`", "did you mean `tries`?"),
    ("title: t\nnamed:\n  x.y:\n    agentRole: ab\n    trys: 1", 5, "unknown key `named.x.y.trys`", "did you mean `tries`?"),
    ("title: t\nmode: medium", 2, "`mode` must be one of 'fast' or 'slow', not \"medium\"", None),
    ("title: t\nwait: no", 2, "`wait` must be one of 'yes' or true or false, not \"no\"", None),
    ("title: t\nwords:\n  - a\n  - 1", 4, "`words[1]` must be text, not 1", None),
    ("title: t\nwords: 1", 2, "`words` must be a list or text, not 1", None),
    (f"title: t\nmode: {'x' * 100}", 2, f"`mode` must be one of 'fast' or 'slow', not \"{'x' * 56}...", None),
]  # fmt: skip


class TestChecked:
    @pytest.mark.parametrize(("text", "line", "message", "fix"), WRONG)
    def test_the_first_error_in_plain_words(
        self, text: str, line: int, message: str, fix: str | None
    ) -> None:
        with pytest.raises(InvalidFile) as caught:
            validate_document(Plan, parse_document(text, "plan.yaml"))
        assert caught.value.message == message
        assert caught.value.where == f"plan.yaml:{line}"
        assert caught.value.fix == fix

    def test_a_document_that_fits(self) -> None:
        text = "title: t\nlimits: {cost_threshold: 5}\nsteps:\n  - agentRole: ab\n    tries: 2\nwait: true\n"
        plan = validate_document(Plan, parse_document(text, "plan.yaml"))
        assert plan.limits.cost_threshold == 5.0
        assert plan.steps == (Step(agentRole="ab", tries=2),)
        assert plan.wait is True

    def test_enums_of_a_job_are_read_from_their_words(self) -> None:
        spec = validate_document(
            JobSpec, parse_document("prompt: p\napproval: each\ninput: {a: [1, 2.5]}\n", "job.yaml")
        )
        assert spec.approval == "each"
        assert spec.input == {"a": [1, 2.5]}

    @pytest.mark.parametrize("value", [10**900, -0.1, 1e300, 2**63, "\x00", "ü\u2028"])
    def test_any_value_passes_unchanged(self, value: Any) -> None:
        assert validate_document(JobSpec, Document("j", {"input": value}, {})).input == value


class TestNearest:
    @pytest.mark.parametrize(
        ("word", "advice"),
        [
            ("worker", "did you mean `Worker`?"),
            ("Wroker", "did you mean `Worker`?"),
            ("Supervisr", "did you mean `Supervisor`?"),
            ("xyz", "known: Supervisor, Worker"),
        ],
    )
    def test_advice(self, word: str, advice: str) -> None:
        assert suggest_names(word, {"Worker", "Supervisor"}) == advice

    def test_nothing_known(self) -> None:
        assert suggest_names("x", []) is None


JOB = """\
# what was asked
id: hello   # never changes
"title": 'A title'
prompt: |
  Do it.

  Well.

# the bounds
limits:
  cost_threshold:   500 # cents
  max_attempts: 2
tags: [a, "b"]
files:  # to read
  - x.py
  - y.py  # the other
empty:

# the end
"""

EDITS: list[tuple[tuple[str, ...], object, str, str]] = [
    (("id",), "bye", "id: hello   #", "id: bye   #"),
    (("title",), "It's", "\"title\": 'A title'", '"title": It\'s'),
    (("limits", "cost_threshold"), 7.5, ":   500 # cents", ":   7.5 # cents"),
    (("limits", "max_attempts"), None, "  max_attempts: 2\n", ""),
    (("limits", "time"), 3, "  max_attempts: 2\n", "  max_attempts: 2\n  time: 3\n"),
    (("limits",), None, "limits:\n  cost_threshold:   500 # cents\n  max_attempts: 2\n", ""),
    (("prompt",), "One.", "|\n  Do it.\n\n  Well.\n", "One.\n"),
    (("prompt",), "Two\nlines", "|\n  Do it.\n\n  Well.\n", "|-\n  Two\n  lines\n"),
    (("prompt",), None, "prompt: |\n  Do it.\n\n  Well.\n", ""),
    (("tags",), ["c"], '[a, "b"]', "[c]"),
    (("tags",), "x", '[a, "b"]', "x"),
    (("files",), ["z"], "  # to read\n  - x.py\n  - y.py", "  # to read\n- z"),
    (("files",), "z", ":  # to read\n  - x.py\n  - y.py", ": z  # to read"),
    (("files",), None, "files:  # to read\n  - x.py\n  - y.py  # the other\n", ""),
    (("empty",), 1, "empty:\n", "empty: 1\n"),
    (("empty", "a"), {"b": [1]}, "empty:\n", "empty:\n  a:\n    b:\n    - 1\n"),
    (("empty",), None, "empty:\n", ""),
    (("rank",), -1, "empty:\n", "empty:\nrank: -1\n"),
    (("approval",), "no", "empty:\n", 'empty:\napproval: "no"\n'),
    (("review",), False, "empty:\n", "empty:\nreview: false\n"),
    (("deep", "er"), "x", "empty:\n", "empty:\ndeep:\n  er: x\n"),
    (("none",), None, "", ""),
    (("none", "at", "all"), None, "", ""),
    (("limits", "none"), None, "", ""),
    (("id",), "hello", "", ""),
]


class TestEdited:
    @pytest.mark.parametrize(("keys", "value", "before", "after"), EDITS)
    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    def test_only_the_field_changes(
        self, keys: tuple[str, ...], value: object, before: str, after: str, newline: str
    ) -> None:
        text, wanted = JOB.replace("\n", newline), JOB.replace(before, after, 1).replace("\n", newline)
        assert not before or before in JOB
        assert edit_text(text, "job.yaml", {keys: value}) == wanted

    def test_several_changes(self) -> None:
        changes: dict[tuple[str, ...], object | None] = {
            ("id",): None,
            ("limits", "cost_threshold"): None,
            ("limits", "max_attempts"): None,
            ("rank",): 3,
        }
        found = edit_text(
            "# top\nid: a\nlimits:\n  cost_threshold: 1\n  max_attempts: 2\nrank: 1", "-", changes
        )
        assert found == "# top\nrank: 3"

    @pytest.mark.parametrize(
        ("text", "after"),
        [
            ("", "a:\n  b: 1\n"),
            ("# note", "# note\na:\n  b: 1\n"),
            ("---\n", "---\na:\n  b: 1\n"),
            ("\ufeffc: 1\n", "\ufeffc: 1\na:\n  b: 1\n"),
            ("c: 1", "c: 1\na:\n  b: 1\n"),
            ("c: |+\n  x\n\nd: |+\n  y\n\n", "c: |+\n  x\n\nd: |+\n  y\n\na:\n  b: 1\n"),
            ("c: 1\na: {d: 2}  # x\n", "c: 1\na: {d: 2, b: 1}  # x\n"),
            ("{c: 1}\n", "{c: 1, a: {b: 1}}\n"),
            ("a:  # x\n    c: 1\n    # y\n\nd: 2\n", "a:  # x\n    c: 1\n    b: 1\n    # y\n\nd: 2\n"),
        ],
    )
    def test_a_new_field_goes_where_it_belongs(self, text: str, after: str) -> None:
        assert edit_text(text, "x.yaml", {("a", "b"): 1}) == after

    def test_json_keeps_its_order_and_indentation(self) -> None:
        text = '{\n    "b": 1,\n    "a": {"x": "ü"}\n}\n'
        found = edit_text(text, "x.json", {("a", "y"): True, ("b",): None, ("c",): [1]})
        assert (
            found == json.dumps({"a": {"x": "ü", "y": True}, "c": [1]}, indent=4, ensure_ascii=False) + "\n"
        )
        assert edit_text('{"a": 1}', "-", {("b",): 2}) == '{"a": 1, "b": 2}'

    def test_a_value_of_another_type_is_a_change(self) -> None:
        assert edit_text("a: true\n", "x.yaml", {("a",): 1}) == "a: 1\n"
        assert edit_text("a: 1\n", "x.yaml", {("a",): 1.0}) == "a: 1.0\n"
        assert edit_text("a: 1\n", "x.yaml", {("a",): "1"}) == "a: '1'\n"

    def test_a_space_that_yaml_does_not_know_is_a_value(self) -> None:
        assert edit_text("b:\n    a: \xa0\nc: 1\n", "x.yaml", {("b",): "x"}) == "b: x\nc: 1\n"
        assert edit_text("b:\n    a: \xa0\n", "x.yaml", {("b",): []}) == "b: []\n"

    def test_a_field_below_a_plain_value_is_refused(self) -> None:
        with pytest.raises(InvalidFile, match="`a` is not a mapping, so it can't contain `b`"):
            edit_text("a: 5\n", "x.yaml", {("a", "b"): 1})

    def test_what_is_no_document_is_refused(self) -> None:
        with pytest.raises(InvalidFile, match="duplicate key"):
            edit_text("a: 1\na: 2\n", "x.yaml", {("b",): 1})

    def test_a_form_that_cannot_be_changed_safely_is_refused(self) -> None:
        with pytest.raises(InvalidFile):
            edit_text("? a\n: {b: 1}\n", "x.yaml", {("a",): "x"})


KEYS = st.sampled_from(["a", "b", "limits", "x y", "1", "no", "# k", "a: b"])
WORDS = st.sampled_from(
    ["no", "1_000", "a: b", "# x", "- a", "a\nb\n", " x\n", "a\n\n", "=", "|", "\t", "~", "\x85"]
)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | WORDS
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=4)


def without(data: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """What is left beside the field at `keys`, with mappings that become empty gone."""
    left = {key: value for key, value in data.items() if key != keys[0]}
    inner = data.get(keys[0])
    if len(keys) > 1 and isinstance(inner, dict) and (rest := without(inner, keys[1:])):
        left[keys[0]] = rest
    return left


class TestAnyEdit:
    @pytest.mark.parametrize("old", ["[]", "{}", "[1, 2]", "{b: 1}"])
    def test_a_text_of_lines_replaces_a_collection_on_one_line(self, old: str) -> None:
        found = edit_text(f"a: {old}\nz: 1\n", "x.yaml", {("a",): "One.\nTwo.\n"})
        assert found == "a: |\n  One.\n  Two.\nz: 1\n"

    @given(data=MAPPINGS, keys=st.lists(KEYS, min_size=1, max_size=3).map(tuple), value=VALUES, style=st.sampled_from([None, False, True]), commented=st.booleans(), cut=st.booleans())  # fmt: skip
    def test_sets_its_field_and_no_other(
        self,
        data: dict[str, Any],
        keys: tuple[str, ...],
        value: object,
        style: bool | None,
        *,
        commented: bool,
        cut: bool,
    ) -> None:
        text = written(data, style)
        text = f"# note\n{text}# end\n" if commented else text
        text = text.rstrip("\n") if cut else text
        before = parse_document(text, "x.yaml").data
        try:
            found = edit_text(text, "x.yaml", {keys: value})
        except InvalidFile as error:
            message = error.message
        else:
            message = ""
        if message:
            assert "is not a mapping" in message
            return
        after = parse_document(found, "x.yaml").data
        assert without(after, keys) == without(before, keys)
        for key in keys[:-1]:
            after = after.get(key) or {}
        assert after.get(keys[-1]) == value

    @given(MAPPINGS)
    def test_what_is_dumped_reads_back(self, data: dict[str, Any]) -> None:
        assert parse_document(dump_yaml(data), "x.yaml").data == data

    @given(
        st.dictionaries(
            st.text("abNY_ -:1", min_size=1, max_size=6) | st.sampled_from(["id", "true", "no"]),
            st.booleans()
            | st.integers()
            | st.text("aY ._,;()/+-:#é'\n1", max_size=9)
            | st.sampled_from(["Off", "null", "A task."]),
            max_size=4,
        )
    )
    @example({"k" * 200: "a"})
    @example({"k": "word " * 300})
    def test_without_the_library_the_text_is_the_same(self, data: dict[str, Any]) -> None:
        assert dump_yaml(data) == dump_any_yaml(data)

    def test_dumped_text_is_for_people(self) -> None:
        found = dump_yaml({"id": "a", "prompt": "One.\nTwo.\n", "tags": ["x"], "role": "on"})
        assert found == 'id: a\nprompt: |\n  One.\n  Two.\ntags:\n- x\nrole: "on"\n'

    def test_much_is_dumped_as_json_which_is_yaml_too_and_stays_json(self) -> None:
        odd: list[Any] = ["\x85\x7f\ufeff😀\t", "tab\there", None, True, -1.5, {}, []]
        data = {"id": "a", "input": {"odd": odd, "much": list(range(1000))}}
        text = dump_yaml(data)
        assert text.startswith('{\n "id": "a"')
        assert json.loads(text) == parse_document(text, "job.yaml").data == data
        commented = f"# read as YAML\n{text}"
        assert parse_document(commented, "job.yaml").data == data
        assert edit_text(text, "job.yaml", {("id",): "b"}) == dump_yaml({**data, "id": "b"})

    @pytest.mark.parametrize("much", [["x" * 99] * 2000, "line\n" * 30_000])
    def test_long_texts_are_much_too(self, much: object) -> None:
        assert dump_yaml({"input": much}).startswith("{\n")

    def test_yaml_that_json_would_read_as_something_else_stays_yaml(self) -> None:
        assert parse_document('{"a": NaN, "b": 1e3}', "x.yaml").data == {"a": "NaN", "b": 1000.0}
        with pytest.raises(InvalidFile, match="duplicate key"):
            parse_document('{"a": 1, "a": 2}', "x.yaml")
