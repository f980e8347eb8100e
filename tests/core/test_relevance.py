"""The words of a task, the files it names, the order of what is found, and the tree: values in, values out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from itertools import groupby
from math import prod
from typing import Any

import pytest

from logist.core.relevance import Task, kinds
from logist.core.relevance.candidates import Candidates, lower_names
from logist.core.relevance.mentions import MANY_DIRECTORIES, find_mentions
from logist.core.relevance.occurrences import CodeNames, count_definitions, make_finder
from logist.core.relevance.past_commits import LARGE, Vote, count_votes, find_similar_commits
from logist.core.relevance.ranking import Names, Texts, rank_files
from logist.core.relevance.ranking_report import RankingReport
from logist.core.relevance.tree import MAX_CHARACTERS, MAX_LINES, draw_tree
from logist.core.relevance.word_table import MOST_WORDS, TextCounts, WordTableBuilder
from logist.core.relevance.words import (
    MAX_COMPOUNDS,
    MAX_KEYWORDS,
    Focus,
    find_focus,
    find_keywords,
    stem_title,
    stem_word,
)


@pytest.mark.parametrize(
    ("words", "shared"),
    [
        (["parse", "parser", "parsers", "parsing", "parsed"], "pars"),
        (["user", "users"], "user"),
        (["cache", "caching", "cached", "caches"], "cach"),
        (["validation", "validate"], "valid"),
        (["log", "logging", "logged", "logs"], "log"),
        (["class", "pass"], None),
        (["RateLimiter", "rate_limiter"], "rate_limiter"),
        (["HTTPServer", "http_server"], "http_server"),
    ],
)
def test_the_forms_of_a_word_share_a_stem(words: list[str], shared: str | None) -> None:
    assert {stem_word(word) for word in words} == ({shared} if shared else set(words))


@pytest.mark.parametrize(
    ("task", "needles"),
    [
        ({"title": "Fix the parser"}, ["pars"]),
        ({"title": "Please make sure that it works"}, []),
        ({"title": "The default value of an option"}, ["default", "valu", "option", "default_valu"]),
        ({"title": "Content-type parsers"}, ["content", "type", "pars", "content_type", "type_pars"]),
        ({"title": "Lexer; and parser", "prompt": "token table"}, ["lexer", "pars", "token", "tabl"]),
        ({"title": "Fix app.py and lib/main.go"}, ["app", "lib", "main"]),
        (
            {"title": "Limit retries", "prompt": "`RateLimiter` has retries"},
            ["retr", "limit", "limit_retr", "rate_limiter", "rate"],
        ),
        ({"title": "Users cannot log in"}, ["user", "log_in", "log"]),
        ({"title": "Run vet in CI"}, ["run", "vet", "run_vet", "ci"]),
        ({"title": "See https://example.org/parser/lexer"}, []),
        ({"title": "APIs"}, ["api"]),
        ({"title": "rate limit, rate limit", "prompt": "`rate_limit`"}, ["rate", "limit", "rate_limit"]),
        ({"title": "rate limit or rate limits"}, ["rate", "limit", "rate_limit"]),
        ({"title": "Größe der Übersicht"}, ["größ", "der", "übersicht"]),
        ({"title": "x", "tags": ("parser",)}, ["pars"]),
        ({"title": "x", "criteria": ("The lexer has tests",)}, ["lexer", "test"]),
        ({"title": "x", "step": "Look at the lexer"}, ["lexer"]),
    ],
)
def test_keywords_are_the_words_that_say_where_the_work_is(task: dict[str, Any], needles: list[str]) -> None:
    found = [keyword.needle for keyword in find_keywords(Task(**task))]
    assert sorted(found) == sorted(needles)


def test_what_the_title_says_counts_most_and_names_of_code_more_than_words() -> None:
    found = {
        each.needle: each.weight
        for each in find_keywords(Task("alpha", "beta gamma_delta", criteria=("epsil",)))
    }
    assert found["alpha"] > found["beta"] > found["epsil"]
    assert found["gamma_delta"] > found["beta"]
    telling, general = find_keywords(Task("Support lexers"))[:2]
    assert (telling.word, general.word) == ("lexers", "support")


def weigh(**texts: Any) -> dict[str, float]:
    return {keyword.needle: keyword.weight for keyword in find_keywords(Task(**texts))}


def test_a_tag_counts_more_than_a_text_and_a_part_of_a_name_more_than_a_word() -> None:
    weights = weigh(title="x", prompt="alpha `gamma` delta_epsil", tags=("beta",))
    assert weights["beta"] > weights["alpha"] < weights["gamma"] == weights["delta"] < weights["delta_epsil"]


def test_that_a_task_wants_tests_says_little_about_the_files() -> None:
    weights = weigh(title="Tests of lexers")
    assert weights["test"] < weights["lexer"] / 2


def test_of_too_many_words_the_general_ones_are_left_out() -> None:
    general, telling = "support return handle", " ".join(f"word{chr(97 + n)}x" for n in range(MAX_KEYWORDS))
    assert len(weigh(title=general, prompt=telling)) == MAX_KEYWORDS + 2  # with the compounds of the title
    assert (
        not weigh(title=general, prompt=telling).keys()
        & weigh(title="support", prompt="return handle").keys()
    )


def test_keywords_are_few_and_the_same_each_time() -> None:
    task = Task("a title", " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}x" for n in range(400)))
    assert len(find_keywords(task)) == MAX_KEYWORDS
    long = Task(" ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}x" for n in range(400)))
    assert len(find_keywords(long)) == MAX_KEYWORDS + MAX_COMPOUNDS
    assert find_keywords(task) == find_keywords(task)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        "a_" * 150_000,
        "aB" * 150_000,
        "a." * 100_000,
        "`" * 300_000,
        "./" * 150_000,
        "(" * 300_000,
        " ".join(f"`name{number}`" for number in range(3_000)),
        " ".join(f"{'x/' * 200}{number}/b.py" for number in range(20)),
    ],
    ids=lambda text: text[:4],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    find_keywords(Task(text, text, text, (text,)))
    places = [f"{number}/a" for number in range(10_000)]
    find_mentions(Task(text, text, text, (text,)), [f"{place}/b.py" for place in places], places)
    assert time.process_time() - began < 3


PATHS = [
    "README.md",
    "Makefile",
    "src/app.py",
    "src/api/users.py",
    "src/api/orders.py",
    "src/api/__init__.py",
    "lib/Parser.java",
    "docs/a guide.md",
    "src/[id]/page.tsx",
    "tests/api/test_users.py",
    *(f"packages/p{n}/index.ts" for n in range(5)),
]
ABOVE = ["src", "src/api", "lib", "docs", "tests", "tests/api", "src/[id]", "packages"]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("see src/app.py", [["src/app.py"]]),
        ("see `src/app.py`.", [["src/app.py"]]),
        ("(src/app.py), README.md;", [["src/app.py"], ["README.md"]]),
        ("app.py:12 fails", [["src/app.py"]]),
        ("src/app.py:12:3: E501", [["src/app.py"]]),
        ('File "/home/ada/clone/src/api/users.py", line 3', [["src/api/users.py"]]),
        (r"src\api\users.py", [["src/api/users.py"]]),
        ("./src/app.py and a/src/app.py", [["src/app.py"], ["src/app.py"]]),
        ("at load (src/app.py:12:5)", [["src/app.py"]]),
        ("at lib.Parser.parse(Parser.java:12)", [["lib/Parser.java"]]),
        ("the Makefile", [["Makefile"]]),
        ("src.api.users", [["src/api/users.py"]]),
        ("api.users.sign_in()", [["src/api/users.py"]]),
        ("com.example.lib.Parser", []),
        ("lib.Parser", [["lib/Parser.java"]]),
        ("in `docs/a guide.md`", [["docs/a guide.md"]]),
        ("src/[id]/page.tsx", [["src/[id]/page.tsx"]]),
        ("https://example.org/src/app.py", []),
        ("index.ts", [[f"packages/p{n}/index.ts" for n in range(5)]]),
        ("app", []),
        ("e.g. this, i.e. that, 3.5 and v1.2", []),
    ],
)
def test_a_task_names_files(text: str, files: list[list[str]]) -> None:
    assert find_mentions(Task("", text), PATHS, ABOVE).files == files


@pytest.mark.parametrize(
    ("text", "directories"),
    [("in src/api", ["src/api"]), ("in `tests`", ["tests"]), ("in tests/", ["tests"]), ("the tests", [])],
)
def test_a_task_names_directories(text: str, directories: list[str]) -> None:
    assert find_mentions(Task("", text), PATHS, ABOVE).directories == directories


def test_what_is_named_and_not_there_may_be_hidden() -> None:
    named = find_mentions(Task("", "see .env, build/out.txt and and/or"), PATHS, ABOVE)
    assert named.unknown == [".env", "build/out.txt", "and/or"]


def test_the_scope_in_a_title_names_directories() -> None:
    for title, directories in (
        ("fix(api): users", ["src/api", "tests/api"]),
        ("feat(docs)!: users", ["docs"]),
        ("fix(src/api): users", ["src/api"]),
        ("Users (docs)", []),
        ("fix(app): users", []),
    ):
        assert find_mentions(Task(title), PATHS, ABOVE).directories == directories
    many = sorted(f"packages/p{n}/api" for n in range(MANY_DIRECTORIES))
    assert find_mentions(Task("fix(api): users"), PATHS, many).directories == many
    assert find_mentions(Task("fix(api): users"), PATHS, [*many, "api2/api"]).directories == []


def make_candidates(paths: Iterable[str]) -> Candidates:
    """Return files in any order, as if each were alone in its directory."""
    every = [*paths]
    names = [path.rpartition("/")[2] for path in every]
    return Candidates(
        every,
        names,
        lower_names(names),
        [*map(kinds.classify_file, every)],
        [1] * len(every),
        range(len(every)),
        [path.rpartition("/")[0] for path in every],
        range(1, len(every) + 1),
    )


def ranked(task: Task, files: dict[str, str], **more: Any) -> list[str]:
    wanted = find_keywords(task)
    files = {**files, **{f"filler{n}.py": "filler" for n in range(10)}}
    data = {path: text.encode() for path, text in files.items()}
    table = WordTableBuilder()
    for text in data.values():
        table.add_text(text)
    texts = Texts(
        table.finish().count_keywords(wanted),
        list(map(len, data.values())),
        [*range(len(data))],
    )
    contents = [*data.values()]
    found = rank_files(
        wanted,
        Names(wanted),
        texts,
        files=make_candidates(files),
        searched=len(files),
        find_definitions=lambda numbers: {
            number: count_definitions(contents[number], CodeNames(wanted)) for number in numbers
        },
        **{"most": 10, **more},
    )
    return [one.path for one in found]


def test_of_each_text_only_the_first_words_are_counted() -> None:
    table = WordTableBuilder()
    digits = str.maketrans("0123456789", "abcdefghij")
    names = [f"x{number:06}".translate(digits) for number in range(MOST_WORDS - 1)]
    table.add_text(" ".join(["lexer", *names, "parser"]).encode())
    lexer, parser = table.finish().count_keywords(find_keywords(Task("Lexer or parser")))
    assert ([*lexer.iter_pairs()], [*parser.iter_pairs()]) == ([(0, 1)], [])


RANKED = [
    ("a name beats a text", {"other.py": "parser", "parser.py": "x"}, "parser.py"),
    ("a whole name beats a part of one", {"a_table_of_parsers.py": "", "parser.py": ""}, "parser.py"),
    ("a definition beats a use", {"a.py": "a parser", "b.py": "x\ndef parser(): 1"}, "b.py"),
    (
        "work beats docs about it",
        {"docs/parser.md": "parser lexer " * 9, "parser.py": "parser lexer"},
        "parser.py",
    ),
    ("a text beats its directory", {"parser/x.py": "a", "y.py": "parser"}, "y.py"),
    ("a rare word beats a common one", {"a.py": "lexer", **{f"{n}.py": "parser" for n in range(9)}}, "a.py"),
    ("both beat one", {"a.py": "parser lexer", "b.py": "parser parser parser parser"}, "a.py"),
    ("short beats long", {"a.py": "parser" + " x" * 30_000, "b.py": "parser"}, "b.py"),
    ("a directory counts too", {"a/x.py": "parser", "parser/x.py": "parser"}, "parser/x.py"),
    (
        "a directory with the same word adds nothing",
        {"b/parser.py": "", "parser/parser.py": ""},
        "b/parser.py",
    ),
    ("code beats a lock file", {"parser.lock": "parser lexer", "b.py": "parser"}, "b.py"),
    ("code beats a changelog", {"CHANGELOG.md": "parser lexer", "b.py": "parser lexer"}, "b.py"),
    ("ours beats other people's", {"vendor/parser.py": "parser", "b.py": "parser"}, "b.py"),
    (
        "work beats its tests",
        {"tests/test_parser.py": "parser lexer", "parser.py": "parser lexer"},
        "parser.py",
    ),
    (
        "work beats its examples",
        {"examples/parser.py": "parser lexer", "parser.py": "parser"},
        "parser.py",
    ),
    (
        "a test speaks for its source",
        {"a.py": "parser", "b.py": "parser", "tests/test_b.py": "parser lexer"},
        "b.py",
    ),
    (
        "a test speaks for nothing if many sources have its name",
        {"a.py": "parser", **{f"{n}/b.py": "parser" for n in "xyz"}, "tests/test_b.py": "parser lexer"},
        "a.py",
    ),
    ("a short form is the word", {"lex.py": "x", "b.py": "x"}, "lex.py"),
    ("equals are in order", {"b_parser.py": "", "a_parser.py": ""}, "a_parser.py"),
]


@pytest.mark.parametrize(("files", "first"), [row[1:] for row in RANKED], ids=[row[0] for row in RANKED])
def test_files_are_ranked(files: dict[str, str], first: str) -> None:
    assert ranked(Task("Parser and lexer"), files)[0] == first


def test_the_forms_of_a_name_are_about_the_same() -> None:
    files = {"tokenize.py": "x", "tests/test_tokenizers.py": "parser lexer"}
    assert ranked(Task("Parser and lexer"), files) == ["tests/test_tokenizers.py", "tokenize.py"]


def test_files_are_counted_by_their_rounded_scores() -> None:
    report = RankingReport(
        {"below": 0.4999994, "rounded": 0.4999996, "at": 0.5, "far": 0.3, "listed": 5.0}, floor=0.5
    )
    assert report.count_from_floor({"listed"}) == 2
    assert [path for path, score in report.scores.items() if score < report.floor] == ["below", "far"]
    assert [report.get_score(path) for path in ("rounded", "missing")] == [0.5, 0.0]


def test_the_points_and_factors_of_a_file_make_up_its_score() -> None:
    files = {
        "parser.py": "def parser(): lexer",
        "parser/tests/test_lexer.py": "parser",
        "docs/lexer.md": "lexer " * 3,
        "vendor/parser.js": "lexer",
        "old.py": "",
        "b/lexer.py": "",
    }
    report = RankingReport()
    votes = {"old.py": Vote(0.5, (0, 1)), "parser.py": Vote(0.2, (1,))}
    ranked(Task("Parser and lexer"), files, votes=votes, directories=["b"], report=report)
    assert files.keys() == report.scores.keys()
    for path, score in report.scores.items():
        factor = prod(each.value for each in report.list_factors(path))
        assert sum(each.points for each in report.list_points(path)) * factor == pytest.approx(
            score, abs=1e-5
        )
    assert {each.place for path in files for each in report.list_points(path)} == {
        *("name", "definitions", "text", "past commits", "directory", "a test or page about it"),
    }
    assert [(each.word, each.files) for each in report.words] == [("parser", 2), ("lexer", 3)]
    assert report.floor == pytest.approx(max(report.scores.values()) / 10)
    (reason,) = report.list_factors("docs/lexer.md")
    assert reason == (0.3, "vendored, generated, or not code")


def test_a_directory_that_is_named_and_a_wish_for_tests_change_the_order() -> None:
    files = {"a/parser.py": "", "b/parser.py": "", "tests/test_parser.py": ""}
    task = Task("Parser")
    assert ranked(task, files)[0] == "a/parser.py"
    assert ranked(task, files, directories=["b"])[0] == "b/parser.py"
    files = {"a.py": "parser", "tests/b.py": "parser parser"}
    assert ranked(task, files)[0] == "a.py"
    assert ranked(task, files, focus=Focus(tests=True))[0] == "tests/b.py"


def test_two_neighbouring_words_of_the_title_are_found_as_one_name() -> None:
    files = {"a.py": "content content type type", "b.py": "addContentTypes"}
    assert ranked(Task("The content type"), files)[0] == "b.py"
    assert ranked(Task("The type of content"), files)[0] == "a.py"


@pytest.mark.parametrize(
    ("title", "focus"),
    [
        ("Flaky tests of the parser", Focus(tests=True)),
        ("A tutorial for parsers", Focus(prose=True)),
        ("The benchmarks of the parser", Focus(examples=True)),
        ("fix(types): the parser", Focus(declarations=True)),
        ("The parser", Focus()),
    ],
)
def test_the_title_says_what_kind_of_files_the_task_is_about(title: str, focus: Focus) -> None:
    assert find_focus(Task(title, "with tests, docs, examples and types")) == focus


def test_files_of_the_kind_that_the_task_is_about_come_first() -> None:
    task, files = Task("Parser"), {"a.ts": "parser", "b.d.ts": "parser", "examples/c.ts": "parser parser"}
    assert ranked(task, files) == ["a.ts", "b.d.ts", "examples/c.ts"]
    assert ranked(task, files, focus=Focus(declarations=True))[0] == "b.d.ts"
    page = {"a.ts": "parser", "docs/b.md": "parser parser"}
    assert ranked(task, page) == ["a.ts", "docs/b.md"]
    assert ranked(task, page, focus=Focus(prose=True))[0] == "docs/b.md"
    assert ranked(task, files, focus=Focus(examples=True))[0] == "examples/c.ts"


def test_what_hardly_matters_is_left_out_and_the_rest_bounded() -> None:
    files = {"parser_lexer_token.py": "parser lexer token", "x.lock": "parser"}
    assert ranked(Task("parser lexer token"), files) == ["parser_lexer_token.py"]
    many = {f"parser{n}.py": "" for n in range(30)}
    assert len(ranked(Task("parser"), many)) == 10


@pytest.mark.parametrize(
    ("path", "worth", "secret"),
    [
        ("a.py", 1.0, False),
        ("docs/a.md", 0.3, False),
        ("a.unknown", 0.3, False),
        ("package-lock.json", 0.05, False),
        ("a.min.js", 0.05, False),
        ("vendor/a.go", 0.1, False),
        ("CHANGELOG.md", 0.1, False),
        ("a.PNG", 0.0, False),
        ("x.tar.gz", 0.0, False),
        (".env", 0.3, True),
        (".env.local", 0.3, True),
        (".env.example", 0.3, False),
        ("conf/server.key", 0.3, True),
        ("id_rsa", 0.3, True),
        ("secrets.py", 1.0, False),
    ],
)
def test_a_name_tells_what_a_file_is(path: str, worth: float, secret: bool) -> None:
    kind = kinds.classify_file(path)
    assert (kind.worth, kind.secret) == (worth, secret)


def group_by_directory(paths: list[str]) -> list[tuple[str, list[str]]]:
    """Return the directories of neighbouring paths, each with the names of the files in it."""
    return [
        (directory, [path.rpartition("/")[2] for path in inside])
        for directory, inside in groupby(paths, lambda path: path.rpartition("/")[0])
    ]


def test_the_tree_shows_key_files_and_two_levels_with_counts() -> None:
    files = ["src/a.py", "src/api/x.py", "src/api/deep/y.py", "docs/b.md", "docs/README.md"]
    files += ["a.py", "README.md", "Makefile"]
    shown = draw_tree(
        group_by_directory(files), ["src", "docs", "src/api", "src/api/deep", "empty"], {"link": "a link"}
    )
    assert shown.splitlines() == [
        "Makefile",
        "README.md",
        "docs/ (2 files)",
        "  README.md",
        "  b.md",
        "empty/ (0 files)",
        "src/ (3 files)",
        "  api/ (2 files)",
        "  a.py",
        "a.py",
        "link (a link)",
    ]
    assert draw_tree([], [], {}) == ""
    assert (
        draw_tree([("", ["a"])], [], {}, partial=True).splitlines()[-1]
        == "(incomplete: not all files were scanned)"
    )


def test_names_stay_on_their_line() -> None:
    shown = draw_tree([("", ["a\n## Task: x", "b\udcff", "c" * 300])], [], {})
    assert shown.splitlines() == ['"a\\n## Task: x"', "b\\xff", "c" * 100 + "..."]


@pytest.mark.parametrize(
    "files",
    [
        [f"f{n:05}.txt" for n in range(10_000)],
        [f"d{n:05}/x" for n in range(10_000)],
        [f"d{n % 50:02}/f{n:05}" for n in range(10_000)],
        [f"d{n:03}/{'x' * 200}{m}" for n in range(100) for m in range(100)],
    ],
)
def test_the_tree_is_bounded_and_keeps_what_builds_the_project(files: list[str]) -> None:
    shown = draw_tree(
        group_by_directory([*files, "README.md", "pyproject.toml", "zzz/x"]), [], {}
    ).splitlines()
    assert len(shown) <= MAX_LINES
    assert sum(map(len, shown)) <= MAX_CHARACTERS
    assert shown[:2] == ["README.md", "pyproject.toml"]
    assert any(line.startswith("... and") or "files)" in line for line in shown)


def test_a_short_word_is_found_only_as_a_word_of_a_file_name() -> None:
    names = Names(find_keywords(Task("log, vet")))
    assert names.find_hits("catalog.py") == names.find_hits("velvet.py") == ({}, {})
    assert names.find_hits("log.py")[0].keys() == {0}


def test_titles_are_compared_by_their_stems() -> None:
    assert stem_title("Parsing users") & stem_title("The parser for a user") == {"pars", "user"}


@pytest.mark.parametrize(
    ("path", "own", "above"),
    [
        ("x.py", [], []),
        ("lexer.py", ["lexer"], []),
        ("lexer/pars/deep/x.py", [], ["lexer", "pars"]),
        ("LexerTable/deep/Parsers.java", ["pars"], ["lexer"]),
        ("a/rate-limiter/rateLimiter.ts", ["rate", "rate_limiter"], ["rate", "rate_limiter"]),
    ],
)
def test_a_file_has_words_in_its_name_and_in_every_directory_above(
    path: str, own: list[str], above: list[str]
) -> None:
    wanted = find_keywords(Task("Lexer and parser", "`rate_limiter`"))
    found = [sorted(wanted[number].needle for number in hits) for hits in Names(wanted).find_hits(path)]
    assert [[needle for needle in each if needle != "limit"] for each in found] == [own, above]


@pytest.mark.parametrize(
    ("path", "test"),
    [("tests/deep/x.py", True), ("x_test.go", True), ("a/LexerSpec.ts", True), ("latest/contest.py", False)],
)
def test_a_test_is_known_by_its_name_or_a_directory_above(path: str, test: bool) -> None:
    assert kinds.classify_file(path).test is test


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("log, Logging and LOGS", 3),
        ("catalog, blog, login, logical, dialog", 0),
        ("isLogged last_log logFile LOG_FILE HTTPLog XLogger", 6),
        ("", 0),
        ("log " * 300, 300),
        ("catalog " * 100 + "log", 1),
    ],
)
def test_a_word_is_counted_in_all_its_forms_and_not_inside_others(text: str, count: int) -> None:
    (keyword,) = find_keywords(Task("Logging"))
    assert len([*make_finder(keyword)(text.encode(), text.lower().encode())]) == count


@pytest.mark.parametrize(
    "line",
    [
        "class RateLimit(Base):",
        "    async def check_limit(self):",
        "export default class Limiter {",
        "export const limitRate = () => {",
        "func (r *Rates) Limit(n int) error {",
        "type limits struct {",
        "pub(crate) fn set_limit() {",
        "impl Limit {",
        "  def self.limit",
        "module Limits",
        "    public static <T> List<T> limit(int n) {",
        "\tprivate final Map<String, Rate> getLimit(",
        "macro_rules! limit {",
    ],
)
def test_definitions_are_found_in_many_languages(line: str) -> None:
    wanted = find_keywords(Task("limit"))
    assert count_definitions(f"x\n{line}\n".encode(), CodeNames(wanted)) == [1]
    assert count_definitions(f"x # {line}\n".encode(), CodeNames(wanted)) == [0]


@pytest.mark.parametrize(
    "text",
    [
        b"public " * 100_000,
        b"public" + b" " * 500_000,
        b"public " + b"a " * 300_000,
        b"\n" * 500_000,
        b"(" * 500_000,
    ],
)
def test_no_file_takes_long(text: bytes) -> None:
    began = time.process_time()
    count_definitions(text, CodeNames(find_keywords(Task("limit"))))
    assert time.process_time() - began < 3


def test_past_commits_like_the_task_vote_for_their_files() -> None:
    wanted = find_keywords(Task("Fix the rate limit of exports"))
    subjects = ["Docs", "Export rates with their limits", "Limit", *["Release"] * 50]
    both, one = find_similar_commits(subjects, wanted)
    assert (both.number, one.number) == (1, 2)
    assert 1.0 >= both.similarity > one.similarity > 0.0
    votes = count_votes(
        [(both, ["a.py", "b.py"]), (one, ["b.py", "c.py"]), (both, [f"{n}" for n in range(LARGE + 1)])]
    )
    assert set(votes) == {"a.py", "b.py", "c.py"}
    assert votes["a.py"].keywords == votes["b.py"].keywords == both.keywords
    assert votes["b.py"].strength < votes["a.py"].strength + votes["c.py"].strength
    assert votes["b.py"].strength > votes["a.py"].strength > votes["c.py"].strength
    assert find_similar_commits([], wanted) == find_similar_commits(["Other"], wanted) == []


def test_a_commit_of_many_files_says_less_about_each() -> None:
    (commit,) = find_similar_commits(["The parser"], find_keywords(Task("Parser")))
    votes = count_votes([(commit, ["a.py"]), (commit, [f"{n}.py" for n in range(LARGE)])])
    assert votes["a.py"].strength > votes["0.py"].strength > 0


def test_a_rare_word_makes_a_past_commit_more_similar_than_a_common_one() -> None:
    subjects = ["Rename the lexer", *["Rename the parser"] * 30]
    similar = find_similar_commits(subjects, find_keywords(Task("Parser, lexer")))
    assert [commit.number for commit in similar[:2]] == [0, 1]
    assert similar[0].similarity > 2 * similar[1].similarity


def test_only_the_most_similar_commits_vote() -> None:
    similar = find_similar_commits(["Parser"] * 205, find_keywords(Task("Parser")))
    assert [commit.number for commit in similar] == [*range(200)]


def test_a_past_commit_about_the_same_compound_is_more_like_the_task() -> None:
    wanted = find_keywords(Task("The rate limit"))
    same, other = find_similar_commits(["Limit the rate", "Rate limits", *["Release"] * 50], wanted)
    assert (same.number, other.number) == (1, 0)
    assert same.similarity > other.similarity == 1.0


def test_a_vote_lifts_a_file_and_lists_one_without_the_words() -> None:
    files = {"a.py": "parser", "b.py": "parser", "c.py": "x"}
    assert ranked(Task("Parser"), files)[:2] == ["a.py", "b.py"]
    votes = {"b.py": Vote(0.5, (0,)), "c.py": Vote(0.3, (0,)), "gone.py": Vote(1.0, (0,))}
    assert ranked(Task("Parser"), files, votes=votes) == ["b.py", "a.py", "c.py"]


UNUSUAL_PATHS = [
    "a.py",
    "b.min.js",
    "README",
    ".env",
    ".env.local",
    ".env.example",
    "id_rsa",
    "server.pem",
    "CHANGELOG.md",
    "license",
    "go.sum",
    "contest.py",
    "latest.js",
    "tests/a.py",
    "tests/data/b.json",
    "test_a.py",
    "src/a.spec.ts",
    "src/deep/e2e/a.ts",
    "vendor/a.py",
    "vendor/tests/a.py",
    "vendor/tests/deep/b.md",
    "examples/a.py",
    "examples/vendor/b.py",
    "docs/a.md",
    "types/a.d.ts",
    "src/deep/a.py",
    "A/B/C/d.png",
    "A/B/c.py",
    "credentials.json",
    "credentials.py",
    "package-lock.json",
    "package.json",
    "history/a.py",
    "history.txt",
    ".gitignore",
    "x..py",
    "é/tést.py",
]


def test_many_files_have_the_same_kinds_as_each_of_them() -> None:
    each = {path: kinds.classify_file(path) for path in UNUSUAL_PATHS}
    for paths in (UNUSUAL_PATHS, UNUSUAL_PATHS[::-1]):
        assert kinds.classify_files(group_by_directory(paths)) == [each[path] for path in paths]
    assert len(set(each.values())) > 10


def test_a_numbered_name_is_like_one_without_a_number() -> None:
    names = Names(find_keywords(Task("The rateLimiter of the parser, auth")))
    for path in (
        "parser7.py",
        "lib12/rate_limiter2.go",
        "Auth0/x.py",
        "é/parser3.py",
        "v2/2.py",
        ".parser9",
        "9",
    ):
        plain = re.sub(r"\d+(?=[./]|$)", "", path)
        assert names.find_hits(path) == names.find_hits(plain), path
    assert names.find_hits("parser2table.py") == names.find_hits("parser_table.py")


def test_each_file_with_the_same_content_makes_its_words_less_rare() -> None:
    wanted = find_keywords(Task("lexer, parser"))
    columns = [TextCounts([0], [1]), TextCounts([1, 2], [1, 1])]
    contents = {**{f"a{n}.py": 0 for n in range(9)}, "b.py": 1, "c.py": 2, "d.py": 3}
    found = rank_files(
        wanted,
        Names(wanted),
        Texts(columns, [100, 100, 100, 100], [*contents.values()]),
        files=make_candidates(contents),
        searched=len(contents),
        most=2,
    )
    assert [one.path for one in found] == ["b.py", "c.py"]
