"""The page with changes: lines, limits, comments that reach the next prompt, and approvals of exactly what was shown."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from logist.core.step.plan import StepPlan
from logist.jobs.turn.next_request import Choice, preview_request
from logist.web.line_comments import MOST_CHARACTERS, MOST_COMMENTS
from logist.web.served_project import ServedProject
from logist.web.server import build_app
from logist.web.sessions import Sessions, create_link
from tests import support
from tests.jobs.bench import Bench, answer, command

PORT = 8722
PASS = json.dumps(
    {
        "action": "COMPLETED",
        "evidence_files": [],
        "summary_for_supervisor": "Fine.",
        "output": {"verdict": "PASS", "issues": [], "suggestions": []},
    }
)
BEFORE = "".join(f"def f{number}(x):\n    return x + {number}\n\n" for number in range(20))
AFTER = BEFORE.replace("x + 3\n", "x + 33\n").replace("    return x + 9\n", "")


class Page:
    """A browser of one steward, without JavaScript."""

    def __init__(self, bench: Bench, folder: Path, steward: str | None = None) -> None:
        (folder / "links").mkdir(parents=True, exist_ok=True)
        sessions = Sessions(folder, PORT, "ada")
        base = f"http://127.0.0.1:{PORT}"
        app = build_app(ServedProject(lambda: bench.project), sessions, PORT)
        self.client = TestClient(app, base_url=base, headers={"Origin": base}, follow_redirects=False)
        key = create_link(folder, PORT, steward).partition("key=")[2]
        cookie = self.client.post("/enter", data={"key": key}).headers["set-cookie"].partition(";")[0]
        self.client.headers["Cookie"] = cookie
        self.prefix = sessions.prefix

    def get(self, path: str, status: int = 200) -> str:
        response = self.client.get(self.prefix + path)
        assert response.status_code == status, response.text
        return str(response.text)

    def post(self, path: str, fields: dict[str, str], status: int = 303) -> str:
        response = self.client.post(self.prefix + path, data=fields)
        assert response.status_code == status, response.text
        return str(response.headers["location"] if status == 303 else response.text)

    def read_fields(self, text: str, action: str, **wanted: str) -> dict[str, str]:
        """Return the hidden fields of the first form for an action with these values."""
        for form in re.findall(rf'<form[^>]*action="{self.prefix}{action}".*?</form>', text, re.DOTALL):
            fields = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form))
            if wanted.items() <= fields.items():
                return {name: unescape(value) for name, value in fields.items()}
        raise AssertionError(f"no form for {action}")

    def comment(self, key: str, text: str, query: str = "", status: int = 303) -> str:
        """Write a comment on a line, as a person does."""
        page = self.get(f"/jobs/j/changes?{query}&comment={quote(key, safe='')}")
        fields = self.read_fields(page, "/jobs/j/comments")
        return self.post("/jobs/j/comments", {**fields, "entered": text}, status)

    def decide(self, decision: str, status: int = 303, **more: str) -> str:
        fields = self.read_fields(self.get("/jobs/j"), "/jobs/j/decide", decision=decision)
        return self.post("/jobs/j/decide", {**fields, **more}, status)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A job that waits for approval, with a changed file."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "app.py").write_text(BEFORE)
    (source / "old.txt").write_text("bye\n")
    support.git(source, "init", "-q", "-b", "main")
    support.git(source, "add", "-A")
    support.git(source, "commit", "-qm", "first")
    files = {"app.py": AFTER, "new <b>.md": "a\u202eb\n<script>alert(1)</script>\nno end"}
    one = Bench(
        tmp_path / "project",
        [answer(command(evidence=["app.py"]), files=files), answer(PASS), answer(), answer(PASS)],
    )
    one.create("j", repo=str(source))
    one.step()
    (one.workspace() / "old.txt").unlink()
    one.step()
    return one


@pytest.fixture
def page(bench: Bench, tmp_path: Path) -> Page:
    return Page(bench, tmp_path / "serve")


def get_prompt(bench: Bench) -> str:
    """Return the next prompt, as text."""
    _, plan = preview_request(bench.project, "j", Choice())
    assert isinstance(plan, StepPlan)
    return plan.request.prompt


def list_drafts(bench: Bench) -> list[Path]:
    return sorted((bench.project.home / "serve" / "drafts").glob("*/*"))


def read_rows(text: str) -> list[tuple[str, ...]]:
    """Return the cells of all rows as text."""
    rows = re.findall(r'<tr role="row"[^>]*>(.*?)</tr>', text, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [tuple(unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row) for row in cells]


def test_lines_are_side_by_side_with_their_numbers(page: Page) -> None:
    text = page.get("/jobs/j/changes")
    rows = read_rows(text)
    assert ("11−removed:     return x + 3", "11+added:     return x + 33") in rows
    assert ("29−removed:     return x + 9", "") in rows
    assert ("12 ", "12 ") in rows
    assert ("1−removed: bye", "") in rows
    assert "return x + <del>3</del>" in text
    assert "return x + <ins>33</ins>" in text
    assert '<th role="columnheader" scope="col">Before</th>' in text


def test_what_agents_wrote_is_text_and_hides_nothing(page: Page) -> None:
    text = page.get("/jobs/j/changes")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert 'a<span class="hidden">U+202E</span>b' in text
    assert "new &lt;b&gt;.md" in text
    assert "no line break at the end of the file" in text


def test_the_overview_shows_a_small_diff_and_a_link_for_a_large_one(page: Page, bench: Bench) -> None:
    assert ("11−removed:     return x + 3", "11+added:     return x + 33") in read_rows(page.get("/jobs/j"))
    (bench.workspace() / "many.txt").write_text("line\n" * 401)
    text = page.get("/jobs/j")
    assert read_rows(text) == []
    assert f'<a href="{page.prefix}/jobs/j/changes">See the lines that changed' in text


def test_the_view_in_one_column_is_a_link(page: Page) -> None:
    assert 'class="diff split"' in page.get("/jobs/j/changes")
    text = page.get("/jobs/j/changes?view=unified")
    assert 'class="diff unified"' in text
    assert f'href="{page.prefix}/jobs/j/changes?view=unified&amp;comment=app.py%3A11#comment"' in text


def test_scopes(page: Page, bench: Bench) -> None:
    (bench.workspace() / "app.py").write_text(AFTER + "# since the review\n")
    text = page.get("/jobs/j/changes?since=review")
    assert [row for row in read_rows(text) if "added" in "".join(row)] == [
        ("", "60+added: # since the review")
    ]
    assert "has not been approved yet" in page.get("/jobs/j/changes?since=approval")
    between = page.get("/jobs/j/changes?from=0&to=2")
    assert "start of the job → after #2" in between
    assert "# since the review" not in between
    assert "see all changes up to now" in between
    assert 'name="decision"' not in between
    assert "interaction 99 not found" in page.get("/jobs/j/changes?from=0&to=99", 404)
    page.get("/jobs/j/changes?since=ever", 400)
    page.get("/jobs/j/changes?from=x", 400)


def test_a_job_without_changes_says_so(page: Page, bench: Bench) -> None:
    bench.create("k")
    assert "No files changed." in page.get("/jobs/k/changes")


def test_files_of_every_kind(page: Page, bench: Bench) -> None:
    workspace = bench.workspace()
    (workspace / "app.py").chmod(0o755)
    (workspace / "app.py").write_text(BEFORE)
    (workspace / "empty").touch()
    (workspace / "binary").write_bytes(b"\0\1")
    (workspace / "link").symlink_to("app.py")
    (workspace / "returns").write_bytes(b"a\r\nb\r\n")
    (workspace / "mixed").write_bytes(b"a\r\nb\n")
    (workspace / "moved").write_text("bye\n")
    (workspace / 'quo"te\n\u202e').write_text("q")
    text = page.get("/jobs/j/changes")
    for path, note in {
        "app.py": "(mode 100644 → 100755)",
        "empty": "(empty file)",
        "binary": "binary",
        "link": "(symbolic link)",
        "returns": "(lines end with CR LF)",
        "moved": "(renamed from old.txt)",
    }.items():
        [summary] = re.findall(rf"<summary>(?:(?!</summary>).)*<code>{path}</code>.*?</summary>", text)
        assert note in summary
    rows = read_rows(text)
    assert ("", "1+added: aU+000D") in rows
    assert ("", "2+added: b") in rows
    assert 'quo&#34;te <span class="hidden">U+202E</span>' in text


def test_an_address_that_makes_no_sense_is_no_server_error(page: Page) -> None:
    page.get("/jobs/j/changes?path=a%00b", 400)
    for query in (
        "path=../../x",
        "path=/etc",
        "path=%ff",
        "comment=%ff:1",
        "file=a%00&line=1",
        "from=2&to=1",
    ):
        page.get(f"/jobs/j/changes?{query}")


def test_limits_per_file_and_page_name_the_command(page: Page, bench: Bench) -> None:
    for number in range(12):
        (bench.workspace() / f"many {number:02}.txt").write_text("line\n" * 500)
    text = page.get("/jobs/j/changes")
    assert len(read_rows(text)) < 3_100
    assert "100 more lines" in text
    assert "logist job diff --job j --path &#39;many 00.txt&#39;" in text
    assert re.search(r"[0-9,]+ more lines of other files", text)
    assert f'href="{page.prefix}/jobs/j/changes?path=many+11.txt"' in text
    alone = page.get("/jobs/j/changes?path=many+11.txt")
    assert ("", "500+added: line") in read_rows(alone)
    assert 'name="decision"' not in alone
    commented = page.get("/jobs/j/changes?comment=many+11.txt:7")
    assert 'id="comment"' in commented
    assert ("", "7+added: line") in read_rows(commented)


def test_large_files_are_closed(page: Page, bench: Bench) -> None:
    (bench.workspace() / "many.txt").write_text("line\n" * 200)
    text = page.get("/jobs/j/changes")
    assert re.search(r'<details class="file" id="file-\d" >\s*<summary>.*many.txt', text)
    assert re.search(r'<details class="file" id="file-\d" open>\s*<summary>.*app.py', text)


def test_comments_reach_the_next_prompt_with_the_note_and_are_removed(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.\nAnd test it.")
    page.comment("app.py:-29", "Why removed?")
    page.comment("new <b>.md:1", "Hidden characters.")
    text = page.get("/jobs/j")
    assert "3 comments on lines, not sent yet" in text
    assert "3 comments on lines go with your note." in text
    page.decide("reject", entered="Please rework this.")
    assert list_drafts(bench) == []
    note = (
        "Please rework this.\n\n3 comments on lines:\n\n"
        "app.py, line 11:\n>     return x + 33\nUse a constant.\nAnd test it.\n\n"
        "app.py, line 29 (start of the job):\n>     return x + 9\nWhy removed?\n\n"
        "new <b>.md, line 1:\n> a<U+202E>b\nHidden characters."
    )
    assert bench.state().note == note
    assert note in get_prompt(bench)


def test_comments_are_enough_for_a_reject(page: Page, bench: Bench) -> None:
    page.decide("reject", 400, entered="")
    page.comment("app.py:11", "Use a constant.")
    page.decide("reject", entered="")
    assert (bench.state().note or "").startswith("1 comment on lines:\n\napp.py, line 11:")


def test_an_approval_keeps_comments_and_says_so(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Nice.")
    page.decide("approve")
    assert bench.state().status.value == "SUCCESS"
    assert len(list_drafts(bench)) == 1
    assert "1 comment on lines was not sent" in page.get("/jobs/j")


def test_comments_survive_the_server_and_belong_to_one_steward(
    page: Page, bench: Bench, tmp_path: Path
) -> None:
    page.comment("app.py:11", "Use a constant.")
    again = Page(bench, tmp_path / "serve-2")
    text = again.get("/jobs/j/changes")
    assert "Use a constant." in text
    assert "1 comment on lines, not sent yet" in text
    bench.change(steward="bob")
    assert "Use a constant." not in Page(bench, tmp_path / "serve-3", "bob").get("/jobs/j/changes")


def test_a_comment_can_be_removed(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "One.")
    page.comment("app.py:12", "Two.")
    text = page.get("/jobs/j/changes?view=unified")
    fields = page.read_fields(text, "/jobs/j/comments/remove")
    assert page.post("/jobs/j/comments/remove", fields).endswith("/jobs/j/changes?view=unified#decide")
    text = page.get("/jobs/j/changes")
    assert "One." not in text
    assert "Two." in text
    page.post("/jobs/j/comments/remove", {**fields, "id": "../../../../state.json"})
    assert len(list_drafts(bench)) == 1


def test_a_form_that_is_sent_twice_makes_one_comment(page: Page, bench: Bench) -> None:
    fields = page.read_fields(page.get("/jobs/j/changes?comment=app.py:11"), "/jobs/j/comments")
    for _ in range(2):
        page.post("/jobs/j/comments", {**fields, "entered": "Once."})
    assert len(list_drafts(bench)) == 1


def test_comments_have_limits_and_what_was_typed_is_kept(page: Page, bench: Bench) -> None:
    long = "x" * (MOST_CHARACTERS + 1)
    text = page.comment("app.py:11", long, status=400)
    assert "too long" in text
    assert long in text
    assert "a text is required" in page.comment("app.py:11", "  ", status=400)
    fields = page.read_fields(page.get("/jobs/j/changes?comment=app.py:11"), "/jobs/j/comments")
    for number in range(MOST_COMMENTS):
        page.post("/jobs/j/comments", {**fields, "id": f"{number:016x}", "entered": "One."})
    assert "51 comments" in page.comment("app.py:11", "More.", status=409)
    for wrong in ({"id": "../x"}, {"comment": ""}, {"comment": "app.py:0"}):
        page.post("/jobs/j/comments", {**fields, "entered": "One.", **wrong}, 400)
    assert len(list_drafts(bench)) == MOST_COMMENTS


def test_all_comments_together_have_a_limit(page: Page, bench: Bench) -> None:
    fields = page.read_fields(page.get("/jobs/j/changes?comment=app.py:11"), "/jobs/j/comments")
    for number in range(10):
        page.post("/jobs/j/comments", {**fields, "id": f"{number:016x}", "entered": "x" * MOST_CHARACTERS})
    assert "too much for one note" in page.comment("app.py:11", "y", status=409)
    assert len(list_drafts(bench)) == 10


def test_a_comment_for_another_revision_is_a_conflict_that_keeps_the_text(page: Page, bench: Bench) -> None:
    fields = page.read_fields(page.get("/jobs/j/changes?comment=app.py:11"), "/jobs/j/comments")
    page.decide("reject", entered="Again.")
    text = page.post("/jobs/j/comments", {**fields, "entered": "My long comment."}, 409)
    assert "My long comment." in text
    assert "ada decided: reject" in text
    assert list_drafts(bench) == []


def test_a_line_that_has_moved_is_found_again(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.")
    (bench.workspace() / "app.py").write_text("# new\n# lines\n" + AFTER)
    text = page.get("/jobs/j/changes")
    assert "app.py, line 13" in text
    assert "this was line 11" in text
    page.decide("reject", entered="See below.")
    assert "app.py, line 13:\n>     return x + 33" in (bench.state().note or "")


def test_a_line_that_is_gone_is_quoted_all_the_same(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.")
    (bench.workspace() / "app.py").unlink()
    page.get("/jobs/j/changes")
    page.decide("reject", entered="See below.")
    note = bench.state().note or ""
    assert "app.py, line 11 when this was written (the line has changed since):\n>     return x + 33" in note


def test_a_line_that_is_not_shown_can_be_commented_on(page: Page) -> None:
    text = page.get("/jobs/j/changes?file=app.py&line=58")
    assert "return x + 19" in text
    assert 'id="comment-text"' in text
    assert "is not part of these changes" in page.get("/jobs/j/changes?file=app.py&line=580")
    assert "is not part of these changes" in page.get("/jobs/j/changes?comment=../../state.json:1")


def test_comments_that_a_killed_server_has_sent_are_not_sent_again(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.")
    [draft] = list_drafts(bench)
    content = draft.read_bytes()
    page.decide("reject", entered="See below.")
    draft.write_bytes(content)  # as if it was killed after the decision was recorded
    draft.chmod(0o600)
    assert "not sent yet" not in page.get("/jobs/j")
    assert list_drafts(bench) == [draft]  # a GET removes nothing
    page.comment("app.py:12", "And another.")
    assert draft not in list_drafts(bench)


def test_a_new_job_with_the_id_of_a_deleted_one_does_not_get_its_comments(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.")
    page.post("/jobs/j/act/cancel", page.read_fields(page.get("/jobs/j"), "/jobs/j/act/cancel"))
    support.git(bench.workspace(), "status")
    from logist.jobs.steward.job_deletion import delete_job

    delete_job(bench.project, "j", force=True)
    page.get("/jobs/j/changes", 404)
    page.post("/jobs/j/comments", {"revision": "1", "entered": "x"}, 404)
    bench.create("j")
    assert "not sent yet" not in page.get("/jobs/j")


def test_files_among_the_drafts_that_are_no_comments_are_ignored(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.")
    folder = list_drafts(bench)[0].parent
    (folder / "0123456789abcdef").write_text('{"id": 1}')
    (folder / "1123456789abcdef").symlink_to("/etc/passwd")
    [own] = [each for each in list_drafts(bench) if b"constant" in each.read_bytes()]
    planted = folder / "2123456789abcdef"
    planted.write_text(own.read_text().replace("constant", "back door"))
    planted.chmod(0o644)  # as git writes files
    assert "1 comment on lines, not sent yet" in page.get("/jobs/j")


@pytest.mark.parametrize("shown", ["/jobs/j", "/jobs/j/changes"])
def test_an_approval_is_for_the_files_that_were_shown(page: Page, bench: Bench, shown: str) -> None:
    fields = page.read_fields(page.get(shown), "/jobs/j/decide", decision="approve")
    assert fields["seen"].startswith(f"{bench.state().revision}-")
    (bench.workspace() / "app.py").write_text(AFTER + "evil()\n")
    text = page.post("/jobs/j/decide", fields, 409)
    assert "files" in re.sub(r"(?s).*Nothing was decided", "", text).partition("</p>")[0]
    assert bench.state().status.value == "APPROVAL_REQUIRED"
    fields = page.read_fields(page.get(shown), "/jobs/j/decide", decision="approve")
    page.post("/jobs/j/decide", fields)
    assert bench.state().status.value == "SUCCESS"


def test_no_get_changes_anything(page: Page, bench: Bench) -> None:
    page.comment("app.py:11", "Use a constant.")
    before: Any = support.tree(bench.project.home)
    for path in ("", "?comment=app.py:12", "?since=review", "?from=0&to=1", "?view=unified&path=app.py"):
        page.get(f"/jobs/j/changes{path}")
    page.get("/jobs/j")
    assert support.tree(bench.project.home) == before
