"""The word index: the same result with it and without it, whatever happens to its files; bounded in size and time."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from pathlib import Path
from random import Random
from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logist.core.prompt.prompt import Relevant
from logist.core.relevance import Task, word_table
from logist.core.relevance.occurrences import make_finder
from logist.core.relevance.word_table import MOST_COUNT, WordTableBuilder
from logist.core.relevance.words import find_keywords
from logist.workspace import Workspace
from logist.workspace.checkpoint.baseline import find_unchanged_ids
from logist.workspace.context import WORDS_FOLDER, KnownTexts, WordIndex, searching, word_index
from logist.workspace.files import safe_open
from tests.support import git, make_repository

TASK = Task(
    "The rate limiter parses retries twice",
    "`RateLimiter` and `retry_after_header`: größe, logging in, 设置. See README.md.",
)
KEYWORDS = find_keywords(TASK)
PIECES = (
    *(
        "RateLimiter",
        "rate_limiter",
        "ratelimiter",
        "setRateLimiter2",
        "limit",
        "LIMITS",
        "parse",
        "parser",
        "Parsing",
    ),
    *(
        "retry_after_header",
        "RetryAfterHeader",
        "retries",
        "log_in",
        "login",
        "catalog",
        "größe",
        "设置了",
        "x" * 300,
    ),
    *("é", "_", "__", " ", "\n", "\t", ".", "2", "\0", "\r\n", "-", "HTTPLog", "\ud800"),
)


def list_counts(columns: Iterable[word_table.TextCounts]) -> list[dict[int, int]]:
    """Return the counts by the numbers of the texts."""
    return [dict(column.iter_pairs()) for column in columns]


@given(st.lists(st.lists(st.sampled_from(PIECES)).map("".join), max_size=5))
@settings(max_examples=300)
def test_a_table_counts_as_if_the_texts_were_read(texts: list[str]) -> None:
    builder = WordTableBuilder()
    contents = [text.encode("utf-8", "surrogatepass") for text in texts]
    for content in contents:
        builder.add_text(content)
    columns = builder.finish().count_keywords(KEYWORDS)
    finders = [make_finder(keyword) for keyword in KEYWORDS]
    for number, content in enumerate(contents):
        read = {n: len([*find(content, content.lower())]) for n, find in enumerate(finders)}
        assert {n: column.get_count(number) for n, column in enumerate(columns)} == read


@given(st.lists(st.lists(st.sampled_from(PIECES)).map("".join), max_size=5))
def test_counts_that_were_added_up_before_are_the_same(texts: list[str]) -> None:
    expected, *others = [make_table(texts, many) for many in (1_000, 2, 1)]
    for table in others:
        assert list_counts(table.count_keywords(KEYWORDS)) == list_counts(expected.count_keywords(KEYWORDS))


def make_table(texts: list[str], many: int) -> word_table.WordTable:
    """Make a table in which the sum is kept of so many words or more with the same component."""
    builder = WordTableBuilder()
    for text in texts:
        builder.add_text(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(word_table, "_MANY_LISTS", many)
        return builder.finish()


def test_what_very_many_words_contain_is_added_up_once() -> None:
    """Otherwise each search for `get` adds up the postings of all names with it."""
    names = [f"get_{one}{other}" for one, other in product(ascii_lowercase, repeat=2)] * 2
    few, many = (make_table([" ".join(names)] * 3, number) for number in (2_000, 500))
    assert len(many.ends) == len(few.ends) + 1
    assert len(many.containing) < len(few.containing)


def test_a_word_is_found_after_one_that_overlaps_it() -> None:
    (keyword,) = find_keywords(Task("test"))
    text = b"attributesTest"
    assert [*make_finder(keyword)(text, text.lower())] == [10]
    assert list_counts(make_table([text.decode()], 1_000).count_keywords([keyword])) == [{0: 1}]


def test_a_word_of_prose_is_not_searched_in_all_names() -> None:
    table = make_table(["rateLimiter limits"], 1_000)
    keyword = next(each for each in KEYWORDS if each.needle == "limit")
    assert list_counts(table._replace(words=b"").count_keywords([keyword])) == [{0: 2}]


class Project:
    """A job from a repository, and the index of its project."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.root = folder, folder / "job" / "workspace"
        self.root.parent.mkdir(parents=True)
        self.words = folder / WORDS_FOLDER
        self.start = self.open_workspace(None).populate(source)

    def open_workspace(self, words: Path | None) -> Workspace:
        return Workspace(self.root, self.root.parent / "git", words=words)

    def find(self, words: Path | None) -> list[Relevant]:
        workspace = self.open_workspace(words)
        survey = workspace.survey_files((), self.start)
        return workspace.find_relevant(
            survey, TASK, redact=str, limit=10, max_file_bytes=65_536, max_total_bytes=262_144
        )

    def require_same(self) -> list[Relevant]:
        """Require that the index changes nothing, neither now nor when it is used again; return what was found."""
        expected = self.find(None)
        assert self.find(self.words) == expected
        assert self.find(self.words) == expected
        return expected

    def list_parts(self) -> list[Path]:
        return sorted(self.words.iterdir()) if self.words.is_dir() else []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One with files of which each is worth a part of the index."""
    monkeypatch.setattr(searching, "LEAST_BYTES", 1)
    source = make_repository(tmp_path / "source")
    chance = Random(28)  # the same files in each test, whichever runs first
    for number in range(30):
        words = " ".join(chance.choices(PIECES[:17], k=50))
        (source / f"file{number}.py").write_text(f"def parse_{number}(): pass\n{words}\n")
    (source / "data.bin2").write_bytes(b"\0rate limiter\n" * 100)
    (source / "latin.txt").write_bytes("größe rate limiter\n".encode("latin-1"))
    git(source, "add", "-A")
    git(source, "commit", "--quiet", "-m", "Files")
    return Project(tmp_path / "project", source)


def test_the_index_changes_nothing(project: Project) -> None:
    assert len(project.require_same()) == 10
    (part,) = project.list_parts()
    assert (part.stat().st_mode & 0o777, project.words.stat().st_mode & 0o777) == (0o600, 0o700)


def count(project: Project, ids: list[bytes | None] | None = None) -> dict[str, dict[int, int]]:
    workspace = project.open_workspace(project.words)
    survey = workspace.survey_files((), project.start)
    known = find_unchanged_ids(workspace.git, survey.table) if ids is None else ids
    files = survey.searchable
    chosen = searching.choose_files(files, lambda number: 1.0)
    with safe_open.open_root(project.root) as top:
        index = WordIndex(project.words)
        texts = searching.count_words(top, files, chosen, KEYWORDS, KnownTexts(index, known))
    assert all(
        texts.sizes[content] == size
        for content, size in zip(texts.contents, files.sizes, strict=True)
        if content >= 0
    )
    return {files.paths[number]: counts for number in chosen if (counts := texts.count_in(number))}


def name_known(project: Project) -> dict[str, bytes]:
    """Return the ids of the unchanged files, by path."""
    workspace = project.open_workspace(None)
    table = workspace.survey_files((), project.start).table
    ids = find_unchanged_ids(workspace.git, table)
    return {path: name for path, name in zip(table.text_paths, ids, strict=True) if name is not None}


def test_the_ids_of_the_last_checkpoint_are_used_for_unchanged_files_only(project: Project) -> None:
    workspace = project.open_workspace(None)
    before = workspace.survey_files((), project.start).files
    edited, removed, renamed, *_ = sorted(before)
    with open(project.root / edited, "a") as file:
        file.write("more")
    (project.root / removed).unlink()
    (project.root / renamed).rename(project.root / f"{renamed}.new")
    for name in ("0", "file", "z"):  # further directories, between the others
        (project.root / name / "in").mkdir(parents=True)
        (project.root / name / "in" / "new.py").write_text("new")
    ids = name_known(project)
    assert ids.keys() == before.keys() - {edited, removed, renamed}
    name_content = KnownTexts(WordIndex(None), list(ids.values())).name_content
    assert ids == {path: name_content((project.root / path).read_bytes()) for path in ids}


def test_an_unchanged_file_is_not_read_again(project: Project) -> None:
    before = count(project)
    survey = project.open_workspace(None).survey_files((), project.start)
    ids = find_unchanged_ids(project.open_workspace(None).git, survey.table)
    assert None not in ids
    for path in survey.files:  # what is read now has no words
        (project.root / path).write_bytes(b"-" * survey.files[path])
    assert count(project, ids) == before
    assert count(project) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "file3.py").write_text("rate_limiter parse\n" * 40),
        lambda root: (root / "file3.py").unlink(),
        lambda root: (root / "file3.py").rename(root / "moved.py"),
        lambda root: (root / "file4.py").write_bytes((root / "file3.py").read_bytes()),
        lambda root: (root / "new.py").write_text("RateLimiter " * 300),
        lambda root: (root / "new.py").symlink_to("file3.py"),
        lambda root: [path.unlink() for path in root.glob("file*.py")],
        lambda root: os.utime(root / "file3.py", (0, 0)),
        lambda root: (root / "file3.py").chmod(0),
    ],
)
def test_it_is_right_after_every_change(project: Project, change: Callable[[Path], object]) -> None:
    project.require_same()
    change(project.root)
    project.require_same()
    project.open_workspace(None).create_checkpoint("x")
    project.require_same()


def test_it_is_right_after_another_checkout(project: Project) -> None:
    before = project.require_same()
    (project.root / "file3.py").write_text("rate_limiter parse retry\n" * 40)
    (project.root / "file5.py").unlink()
    workspace = project.open_workspace(None)
    workspace.create_checkpoint("x")
    assert project.require_same() != before
    workspace.restore(project.start)
    assert project.require_same() == before


def test_another_job_reads_nothing_again(project: Project, tmp_path: Path) -> None:
    project.require_same()
    parts = project.list_parts()
    other = Project(tmp_path / "other", tmp_path / "source")
    other.words = project.words
    other.require_same()
    assert project.list_parts() == parts


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_beginning(path: Path) -> None:
    """Change an id of a content, which is not in the postings."""
    data = bytearray(path.read_bytes())
    data[data.index(b"\n", data.index(b"{")) + 5] ^= 1
    path.write_bytes(data)


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.rename(path.with_name(".old"))
    make(path)


@pytest.mark.parametrize(
    "harm",
    [
        cut,
        flip,
        flip_beginning,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes().replace(b"logist-words 3", b"logist-words 2", 1)),
        lambda path: path.write_bytes(b"\n\n\n"),
        lambda path: path.write_bytes(b"logist-words 99 little\n0\n{}\n"),
        lambda path: path.unlink(),
        lambda path: replace(path, Path.mkdir),
        lambda path: replace(path, os.mkfifo),
        lambda path: replace(path, lambda path: path.symlink_to("/dev/zero")),
        lambda path: shutil.rmtree(path.parent),
        lambda path: replace(path.parent, Path.touch),
        lambda path: (path.parent / f"{'0' * 32}.words").write_bytes(path.read_bytes()[:50]),
    ],
)
def test_a_damaged_index_is_as_good_as_none(project: Project, harm: Callable[[Path], object]) -> None:
    expected = project.require_same()
    harm(project.list_parts()[0])
    assert project.require_same() == expected


def is_usable(folder: Path, name: str) -> bool:
    with WordIndex(folder).open_part(name) as part:
        return part is not None


def test_an_index_of_another_folder_is_not_used(project: Project, tmp_path: Path) -> None:
    """Such as one that came with a clone: its author could have chosen what it says."""
    project.require_same()
    shutil.copytree(project.words, tmp_path / "copy")
    (name,) = WordIndex(tmp_path / "copy").list_parts()
    assert is_usable(project.words, name)
    assert not is_usable(tmp_path / "copy", name)


@pytest.mark.parametrize("head", [b"nothing\n", b"[]\n", b"{}\n", b"{}", b"[" * 100_000 + b"\n"])
def test_nothing_of_an_index_of_another_folder_is_parsed(project: Project, head: bytes) -> None:
    """Its checksum can be right, and the rest of it anything."""
    expected = project.require_same()
    (path,) = project.list_parts()
    magic = path.read_bytes().split(b"\n")[0].rsplit(b" ", 2)[0]
    for first_line in (magic, magic + b" 1 2"):
        path.write_bytes(b"\n".join((first_line, hashlib.sha256(head).hexdigest().encode(), head)))
        assert not is_usable(project.words, path.name)
        assert project.require_same() == expected


def test_only_the_postings_of_the_words_of_a_task_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_index, "BLOCK_BYTES", 64)
    tables = WordTableBuilder()
    for word in (b"limit", b"parse"):
        for _ in range(40):
            tables.add_text(word)
    index = WordIndex(tmp_path / "words")
    index.save_part(word_index.IndexPart([bytes([number]) * 20 for number in range(80)], tables.finish()))
    (path,) = (tmp_path / "words").iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-64] + bytes(64))  # the last postings of `parse`
    limit, parse = find_keywords(Task("limit")), find_keywords(Task("parse"))
    with index.open_part(path.name) as part:
        assert part is not None
        assert list_counts(part.table.count_keywords(limit)) == [dict.fromkeys(range(40), 1)]
        with pytest.raises(word_index.DamagedPart):
            part.table.count_keywords(parse)


def test_a_link_is_not_followed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    project.words.symlink_to(tmp_path / "elsewhere")
    project.require_same()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    word_index.remove_index(project.words)
    assert (tmp_path / "elsewhere").is_dir()
    assert not os.path.lexists(project.words)


def test_where_nothing_can_be_written_nothing_is_kept(project: Project) -> None:
    project.words = Path("/proc/self/words")  # not even root can
    project.require_same()
    assert project.list_parts() == []


def test_a_full_disk_leaves_nothing_behind(project: Project) -> None:
    """The limit of the size of a file is reached like the end of the disk, in the middle of a write."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from logist.workspace.context import WordIndex;"
        "from logist.workspace.context.word_index import IndexPart;"
        "from logist.core.relevance.word_table import WordTableBuilder;"
        "builder = WordTableBuilder(); builder.add_text(b'word ' + bytes(range(97, 123)) * 99_999);"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "WordIndex(Path(sys.argv[1])).save_part(IndexPart([b'0' * 20], builder.finish()))"
    )
    subprocess.run([sys.executable, "-c", code, project.words], check=True)
    assert project.list_parts() == []
    assert project.words.is_dir()


def test_many_processes_write_at_once(project: Project, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from logist.workspace.context import WordIndex, searching;"
        "from logist.core.relevance import Task; from logist.workspace import Workspace;"
        "searching.LEAST_BYTES = 1; root = Path(sys.argv[1]); words = Path(sys.argv[2]);"
        "w = Workspace(root, root.parent / 'git', words=words); s = w.survey_files((), None);"
        "print([(x.file.path, x.reason) for x in w.find_relevant(s, Task('rate limiter parses'), redact=str, limit=10,"
        " max_file_bytes=65536, max_total_bytes=262144)])"
    )
    command = [sys.executable, "-c", code, str(project.root), str(project.words)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert len({process.communicate()[0] for process in running}) == 1
    assert {process.returncode for process in running} == {0}
    (part,) = project.list_parts()
    assert is_usable(project.words, part.name)


def make_part(name: int, words: bytes = b"word") -> word_index.IndexPart:
    builder = WordTableBuilder()
    builder.add_text(words)
    return word_index.IndexPart([name.to_bytes(20, "big")], builder.finish())


def test_directories_in_the_index_do_not_keep_parts_from_being_removed(tmp_path: Path) -> None:
    index = WordIndex(tmp_path / WORDS_FOLDER)
    index.save_part(make_part(0))
    for number in range(10):
        (tmp_path / WORDS_FOLDER / f"directory{number}").mkdir()
        os.utime(tmp_path / WORDS_FOLDER / f"directory{number}", (0, 0))
    for number in range(1, word_index.MOST_SMALL_PARTS + 1):
        index.save_part(make_part(number))
    assert len(index.list_parts()) <= word_index.MOST_SMALL_PARTS


def test_many_small_parts_are_made_anew_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "SMALL_PART_BYTES", 10_000)
    index = WordIndex(tmp_path / WORDS_FOLDER)
    index.save_part(make_part(0, b" ".join(b"x" * n for n in range(1, 500))))
    (large,) = index.list_parts()
    for number in range(1, word_index.MOST_SMALL_PARTS + 1):
        index.save_part(make_part(number))
    assert len(index.list_parts()) == word_index.MOST_SMALL_PARTS + 1
    index.save_part(make_part(100))
    assert large in index.list_parts()
    assert len(index.list_parts()) == 2


def test_one_step_writes_no_more_than_the_index_may_take(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MOST_FOLDER_BYTES", 1)
    monkeypatch.setattr(word_table, "_FULL_TEXTS", 10)
    project.find(project.words)
    assert len(project.list_parts()) == 1
    project.require_same()


def test_only_the_owner_of_the_jobs_keeps_an_index(project: Project) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to somebody else")
    os.chown(project.folder, 12_345, 12_345)
    project.require_same()
    assert not project.words.exists()


def test_what_was_not_used_for_long_is_removed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, folder = WordIndex(tmp_path / WORDS_FOLDER), tmp_path / WORDS_FOLDER
    for number in range(3):
        index.save_part(make_part(number))
    first, second, third = index.list_parts()
    for name, days in ((first, 3), (second, 9), (third, 5)):
        os.utime(folder / name, (time.time() - days * 86_400,) * 2)
    index.mark_used(third)
    (folder / ".new-0123").touch()
    os.utime(folder / ".new-0123", (0, 0))
    monkeypatch.setattr(
        word_index, "MOST_FOLDER_BYTES", sum(path.stat().st_size for path in folder.iterdir()) - 1
    )
    index.save_part(make_part(3))
    assert first not in index.list_parts()
    assert second not in index.list_parts()
    assert third in index.list_parts()
    assert len(index.list_parts()) == 2
    assert not (folder / ".new-0123").exists()


def test_little_new_text_is_not_worth_a_part(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LEAST_BYTES", 1_000_000)
    project.require_same()
    assert project.list_parts() == []


def make_words(count: int, letters: int) -> Iterator[bytes]:
    return (bytes(word) for word in islice(product(ascii_lowercase.encode(), repeat=letters), count))


def test_a_table_of_random_words_is_bounded() -> None:
    builder = WordTableBuilder()
    builder.add_text(b" ".join(make_words(400_000, 4)))
    table = builder.finish()
    assert len(table.starts) == word_table.MOST_WORDS
    assert len(table.words) < 5 * word_table.MOST_WORDS
    texts = 1
    while not builder.is_full:
        builder.add_text(b" ".join(b"%c%b" % (65 + texts, word) for word in make_words(20_000, 4)))
        texts += 1
    assert texts < 30


def test_a_word_that_fills_a_file_counts_up_to_a_limit() -> None:
    builder = WordTableBuilder()
    builder.add_text(b"limit " * 300_000)
    builder.add_text(b"x" * 2_000_000)
    assert list_counts(builder.finish().count_keywords(find_keywords(Task("limit")))) == [{0: MOST_COUNT}]


@pytest.mark.parametrize("having", [1, 30, 100])
def test_rare_and_frequent_words_of_many_texts_are_counted(having: int) -> None:
    builder = WordTableBuilder()
    for number in range(100):
        builder.add_text(b"limit Limit limitLimit other" if number < having else b"other")
    counted = list_counts(builder.finish().count_keywords(find_keywords(Task("limit"))))
    assert counted == [dict.fromkeys(range(having), 4)]
