"""Classify a file by its name: whether it is text, was written by a person, or may contain secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from logist.core.relevance.words import split_lowercase, stem_word
from logist.quick_tuple import NamedTuple

_BINARY = """\
7z a avi avif bin blend bmp br bz2 class dat db dll dmg doc docx dylib ear egg elf eot exe flac gif gz h5 heic
icns ico iso jar jpeg jpg ko lib lz4 lzma m4a mkv mo mov mp3 mp4 mpeg msi node npy npz o obj odp ods odt ogg onnx
otf parquet pb pdf pickle pkl png ppt pptx psd pt pth pyc pyd pyo rar rlib rpm safetensors so sqlite sqlite3 swf
tar tgz tif tiff ttf war wasm wav webm webp whl woff woff2 xls xlsx xz zip zst"""
BINARY = frozenset(_BINARY.split())
"""Extensions of files that are not text; such files are not opened."""

_CODE_ENDINGS = """\
asm awk bash bzl c cc cjs clj cljs cmake cpp cs css cts cu cxx dart ejs el elm erb erl ex exs f90 fs go gradle
graphql groovy h haml hbs hh hpp hrl hs htm html hxx ipynb j2 java jinja jl js jsx kt kts less liquid lisp lua m mjs
mk ml mli mm mts nim nix pas php pl pm proto ps1 pug py pyi pyx qml r rb rs sass scala scss sh sol sql svelte swift
tcl tf thrift tmpl ts tsx v vb vhd vue xsl zig zsh"""
_CODE = frozenset(_CODE_ENDINGS.split())
_PROSE = frozenset(("md", "mdx", "rst", "txt", "adoc", "org", "tex"))
_LOCK_FILES = """\
package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml poetry.lock uv.lock pdm.lock pipfile.lock cargo.lock
go.sum composer.lock gemfile.lock mix.lock packages.lock.json flake.lock bun.lock podfile.lock"""
_GENERATED = frozenset(_LOCK_FILES.split())
_MADE = """\
.min.js .min.css .map .svg .snap .ambr .lock .po .pot .csv .tsv _pb2.py .pb.go .generated.ts .g.dart .designer.cs
.jsonl .log .patch .diff"""
_GENERATED_ENDINGS = tuple(_MADE.split())
_CHRONICLES = frozenset(
    ("changelog", "changes", "history", "news", "authors", "contributors", "license", "copying")
)
_VENDORED = frozenset(("vendor", "third_party", "thirdparty", "node_modules", "bower_components", "external"))

_KEPT_CLOSE = """\
.env .envrc .netrc .pgpass .htpasswd .npmrc .pypirc .git-credentials credentials credentials.json id_rsa id_dsa
id_ecdsa id_ed25519 secrets.yaml secrets.yml secrets.json secrets.toml service-account.json"""
_SECRET_NAMES = frozenset(_KEPT_CLOSE.split())
_BESIDE_CODE = 0.3
"""The worth of text that is not code: what a task changes is mostly code, and texts about it have all its words."""
_SPECIAL = _GENERATED | _SECRET_NAMES
_UNUSUAL = _CHRONICLES | {name.partition(".")[0] for name in (*_SPECIAL, "")}
"""Only a file with such a name, up to the first dot, can be of another kind than one with the same endings."""
_SECRET_ENDINGS = (
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".asc",
    ".gpg",
    ".tfstate",
)
_SAMPLE_ENDINGS = (".example", ".sample", ".template", ".dist")

_TESTS = frozenset(("test", "tests", "spec", "specs", "testing", "testdata", "e2e"))
_SHOWING = """\
example examples sample samples demo demos playground playgrounds bench benches benchmark benchmarks fixture fixtures"""
_EXAMPLES = frozenset(_SHOWING.split())
_TELLING = _VENDORED | _EXAMPLES
_DECLARING = (".d.ts", ".d.mts", ".d.cts", ".pyi", ".rbi")


class FileKind(NamedTuple):
    """The kind of a file, by its name."""

    worth: float
    """How likely a task changes such a file, from 0 to 1; 0 if it is not text and must not be opened."""
    secret: bool
    """It may contain keys and passwords: it is not searched, and not shown in prompts."""
    test: bool
    """The file, or a directory above it, is named like a test."""
    prose: bool = False
    """It is written for people to read, such as documentation."""
    example: bool = False
    """It uses the sources: an example, a benchmark, the data of a test."""
    declaration: bool = False
    """It contains only the types of what other files define."""


def classify_file(path: str) -> FileKind:
    """Return the kind of the file with this path."""
    cut = path.rfind("/")
    name = path[cut + 1 :]
    low = name.lower()
    stem, _, endings = low.partition(".")
    above = _classify_directory(path[:cut]) if cut >= 0 else _NOWHERE
    kind = _classify_endings(endings, above.tests or _is_named_test(name), above)
    special = low in _SPECIAL or stem in _CHRONICLES or not stem
    return _adjust_special(low, stem, kind) if special else kind


def classify_files(groups: Iterable[tuple[str, Sequence[str]]]) -> list[FileKind]:
    """Return `classify_file` of files, from directories, each with the names of the files in it."""
    kinds: list[FileKind] = []
    ordinary: dict[_Above, tuple[dict[str, FileKind], dict[str, FileKind]]] = {}
    directories: dict[str, _Above] = {}
    for directory, names in groups:
        if not names:
            continue
        prefix = f"{directory}/" if directory else ""
        above = _classify_below(prefix, directories)
        if above not in ordinary:
            ordinary[above] = ({}, {})
        plain, named_tests = ordinary[above]
        # Most directories have no test, so all their names are looked at together.
        may_be_tests = not above.tests and _may_be_named_test("/".join(names))
        for name in names:
            stem, _, endings = name.lower().partition(".")
            if stem in _UNUSUAL:
                kinds.append(classify_file(prefix + name))
                continue
            by_endings = named_tests if may_be_tests and _is_named_test(name) else plain
            kind = by_endings.get(endings)
            if kind is None:
                kind = by_endings[endings] = classify_file(prefix + name)
            kinds.append(kind)
    return kinds


def _adjust_special(low: str, stem: str, kind: FileKind) -> FileKind:
    if low in _SECRET_NAMES or _is_environment_file(low):
        return kind._replace(secret=True)
    if low in _GENERATED:
        return kind._replace(worth=0.05)
    return kind._replace(worth=min(kind.worth, 0.1)) if stem in _CHRONICLES else kind


def _classify_below(directory: str, known: dict[str, _Above]) -> _Above:
    """Return `_classify_directory` from what is known about the directories above; the path ends with `/`."""
    cut = directory.rfind("/", 0, -1) + 1
    if not cut:
        return _classify_part(directory[:-1]) if directory else _NOWHERE
    above = known.get(directory[:cut])
    if above is None:
        above = known[directory[:cut]] = _classify_directory(directory[: cut - 1])
    own = _classify_part(directory[cut:-1])
    if own is _NOWHERE or above == own:
        return above
    return _Above(*(one or other for one, other in zip(above, own, strict=True)))


class _Above(NamedTuple):
    tests: bool
    vendored: bool
    examples: bool


_NOWHERE = _Above(False, False, False)


@lru_cache(maxsize=4096)
def _classify_directory(path: str) -> _Above:
    """Return what a path of directories tells about a file in it."""
    parts = [_classify_part(part) for part in path.split("/")]
    return _Above(*(any(facts) for facts in zip(*parts, strict=True)))


@lru_cache(maxsize=4096)
def _classify_part(name: str) -> _Above:
    low = name.lower()
    is_test = _may_be_named_test(low) and _has_test_word(name)
    if not is_test and low not in _TELLING:
        return _NOWHERE  # of many thousands of directories, nearly all
    return _Above(is_test, low in _VENDORED, low in _EXAMPLES)


def _has_test_word(name: str) -> bool:
    return not _TESTS.isdisjoint(split_lowercase(name))


def _is_named_test(name: str) -> bool:
    return _may_be_named_test(name) and _has_test_word(name)


def _may_be_named_test(name: str) -> bool:
    return "est" in name or "pec" in name or "e2e" in name


def _is_environment_file(name: str) -> bool:
    return name.startswith(".env.") and not name.endswith(_SAMPLE_ENDINGS)


@lru_cache(maxsize=4096)
def _classify_endings(endings: str, test: bool, above: _Above) -> FileKind:
    """Return the kind by the text after the first dot of the name, and by the location of the file."""
    last, whole = endings.rpartition(".")[2], f".{endings}"
    worth = 1.0 if last in _CODE else _BESIDE_CODE
    if whole.endswith(_GENERATED_ENDINGS):
        worth = 0.05
    if last in BINARY:
        worth = 0.0
    return FileKind(
        min(worth, 0.1) if above.vendored else worth,
        whole.endswith(_SECRET_ENDINGS),
        test,
        last in _PROSE,
        above.examples,
        whole.endswith(_DECLARING),
    )


def name_subject(path: str) -> str:
    """Return what a file is about by its name: `decorat` for `test/decorator.test.js` and for `lib/decorate.js`."""
    name = path[path.rfind("/") + 1 :].partition(".")[0]
    return "".join(stem_word(word) for word in split_lowercase(name) if word not in _TESTS)
