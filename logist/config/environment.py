"""The environment variables that Logist uses; nothing else in the project reads them."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn

from logist.errors import UsageError
from logist.quick_tuple import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

PROJECT_DIRECTORY = ".logist"
COVEN_DIRECTORY = ".coven"
"""The directory of Coven projects: its settings, roles and workflows are overridden by those in `.logist`."""

# The variables that Logist passes to programs. Only the courier gets the model's key, separately.
_CHILD = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
_PROXIES = frozenset(
    name.lower() for name in _CHILD if name.endswith("_PROXY")
)  # proxy variables are usually lower-case

_SIGNING = (
    *("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_SK_PROVIDER", "SSH_SK_HELPER"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "TERM"),
)
_SHORTEST_SECRET = 8

IGNORED = "jobs/\ncurrent_job\n"
"""The .gitignore of a home: settings and roles can be shared, jobs can't."""

Source = Literal["project", "LOGIST_HOME", "user"]


class Home(NamedTuple):
    """The directory with config.yaml, roles/ and jobs/, and how it was found."""

    path: Path
    source: Source


def replace_process(command: Sequence[str]) -> NoReturn:
    """Replace this process by another Python that is in UTF-8 mode; `command`: its arguments, with its name first.

    What a person types and reads keeps the encoding of the locale.
    """
    encoded = [word.encode("utf-8", "surrogateescape") for word in command]
    streams = f"{sys.getfilesystemencoding()}:surrogateescape"
    os.execve(sys.executable, encoded, {"PYTHONIOENCODING": streams, **os.environ})  # noqa: S606 - ourselves


def replace_process_environment(values: Mapping[str, str]) -> None:
    """Set the environment variables of this process to exactly these; only a courier does so."""
    os.environ.clear()
    os.environ.update(values)


class Environment:
    """A copy of the environment variables; an empty variable counts as unset."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.named_jobs_dir: str | None = None
        """The value of --jobs-dir, for commands that are printed."""

    @classmethod
    def from_process(cls) -> Environment:
        """Return the environment of this process."""
        return cls(os.environ)

    def find_home(self, cwd: Path) -> Home:
        """Return the `.logist` of the nearest directory upward that has one or a `.coven`.

        Otherwise $LOGIST_HOME, otherwise the user's. It may not exist: jobs of a Coven project are in a `.logist`
        too, which the first job creates.
        """
        name, source = self.home_name(str(cwd))
        return Home(_to_path(name), source)

    def home_name(self, cwd: str) -> tuple[str, Source]:
        """Do the same as `find_home` with plain strings, for the commands that must start quickly."""
        absolute_cwd = directory = os.path.abspath(cwd)
        while True:
            home = os.path.join(directory, PROJECT_DIRECTORY)
            if os.path.isdir(home) or os.path.isdir(os.path.join(directory, COVEN_DIRECTORY)):
                return home, "project"
            parent = os.path.dirname(directory)
            if parent == directory:
                break
            directory = parent
        if named := self._get_value("LOGIST_HOME"):
            return os.path.join(absolute_cwd, named), "LOGIST_HOME"
        return os.path.join(self._find_xdg_directory("XDG_DATA_HOME", ".local/share"), "logist"), "user"

    def jobs_dir(self, option: str | None, cwd: Path) -> Path:
        """Return the absolute path of the jobs: the option, otherwise
        $LOGIST_JOBS_DIR, otherwise `jobs` in the home.
        """
        return _to_path(self.jobs_dir_name(option, str(cwd)))

    def jobs_dir_name(self, option: str | None, cwd: str) -> str:
        """Do the same as `jobs_dir` with plain strings, for the commands that must start quickly."""
        return self.chosen_jobs_dir(option, cwd) or os.path.join(self.home_name(cwd)[0], "jobs")

    def chosen_jobs_dir(self, option: str | None, cwd: str) -> str | None:
        """Return the option, otherwise $LOGIST_JOBS_DIR, as an absolute path; None if neither is set."""
        named = option or self._get_value("LOGIST_JOBS_DIR")
        return os.path.abspath(os.path.join(cwd, named)) if named else None

    def worker_directory_name(self) -> str:
        """Return the directory for the tasks of workers on this machine: LOGIST_WORKER_DIR, or that of the user."""
        named = self._get_value("LOGIST_WORKER_DIR")
        return named or os.path.join(
            self._find_xdg_directory("XDG_STATE_HOME", ".local/state"), "logist", "worker"
        )

    def has_jobs_dir(self) -> bool:
        """Whether $LOGIST_JOBS_DIR is set."""
        return self._get_value("LOGIST_JOBS_DIR") is not None

    def user_config_dir(self) -> Path:
        """Return the directory with the user's own config.yaml and roles/."""
        return _to_path(self.user_config_dir_name())

    def user_config_dir_name(self) -> str:
        """Do the same as `user_config_dir` with plain strings, for the commands that must start quickly."""
        return os.path.join(self._find_xdg_directory("XDG_CONFIG_HOME", ".config"), "logist")

    def list_temporary_directories(self) -> list[str]:
        """Return the directories that are chosen for temporary files, in the order in which `tempfile` tries them."""
        return [name for each in ("TMPDIR", "TEMP", "TMP") if (name := self._get_value(each))]

    def editor(self) -> str | None:
        """Return the command of the user's editor, if it is set."""
        return self._get_value("VISUAL") or self._get_value("EDITOR")

    def expand_home(self, path: str) -> str:
        """Return the path with the user's home directory instead of `~` at its start."""
        home = self._get_value("HOME") or _get_account_home()
        return home + path[1:] if path == "~" or path.startswith("~/") else path

    def git_config_files(self) -> tuple[str, ...]:
        """Return the files with git's settings for the whole machine and for the user; a later one wins."""
        own = os.path.join(self._get_value("HOME") or _get_account_home(), ".gitconfig")
        machine = () if self._get_value("GIT_CONFIG_NOSYSTEM") else ("/etc/gitconfig",)
        return (
            *machine,
            os.path.join(self._find_xdg_directory("XDG_CONFIG_HOME", ".config"), "git", "config"),
            own,
        )

    def job_id(self) -> str | None:
        """Return the id of the current job from $LOGIST_JOB_ID, if set."""
        return self._get_value("LOGIST_JOB_ID")

    def agent_name(self) -> str | None:
        """Return the agent to use instead of the configured one, for example `scripted:answers/`."""
        return self._get_value("LOGIST_AGENT")

    def model_name(self) -> str | None:
        """Return the model to use instead of the configured one."""
        return self._get_value("LOGIST_MODEL")

    def find_traces_endpoint(self) -> tuple[str, bool] | None:
        """Return where spans are sent by the variables of OpenTelemetry, and whether that address has its path already."""
        if complete := self._get_value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            return complete, True
        base = self._get_value("OTEL_EXPORTER_OTLP_ENDPOINT")
        return (base, False) if base else None

    def traces_headers(self) -> str | None:
        """Return the headers that the receiver of spans wants, as one text: `name=value,name=value`."""
        names = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
        return next(filter(None, map(self._get_value, names)), None)

    def traceparent(self) -> str | None:
        """Return the span of the program that calls Logist, in the form of W3C."""
        return self._get_value("TRACEPARENT")

    def is_debugging(self) -> bool:
        """Whether an internal error shows its traceback (LOGIST_DEBUG)."""
        return self._get_value("LOGIST_DEBUG") is not None

    def user_name(self) -> str:
        """Return the name of the steward, as it is written to the history."""
        name = (
            self._get_value("LOGIST_STEWARD")
            or self._get_value("USER")
            or self._get_value("LOGNAME")
            or _get_account_name()
        )
        return name.encode("utf-8", "replace").decode("utf-8")  # bytes that are not UTF-8 are surrogates here

    def has_color(self, stream_is_tty: bool) -> bool:
        """Whether to use colors; NO_COLOR wins over everything else."""
        if self._get_value("NO_COLOR") or self.is_plain():
            return False
        forced = self._get_value("FORCE_COLOR")
        if forced is not None:
            return forced.lower() not in {"0", "false"}
        return stream_is_tty and self._get_value("TERM") != "dumb"

    def can_move_cursor(self) -> bool:
        """Whether a terminal, if there is one, can draw a line again, and may."""
        return not self.is_plain() and self._get_value("TERM") not in (None, "dumb")

    def is_plain(self) -> bool:
        """Whether nothing is drawn again, boxed or opened in a pager (LOGIST_PLAIN), for screen readers and logs."""
        return self._get_value("LOGIST_PLAIN") is not None

    def turn_colors_off(self) -> None:
        """Turn off colors for this process, like NO_COLOR."""
        self._values["NO_COLOR"] = "1"

    def turn_input_off(self) -> None:
        """Never ask the person in this process, like LOGIST_NO_INPUT."""
        self._values["LOGIST_NO_INPUT"] = "1"

    def is_input_off(self) -> bool:
        """Whether no command may ask the person (LOGIST_NO_INPUT)."""
        return self._get_value("LOGIST_NO_INPUT") is not None

    def log_file_name(self) -> str | None:
        """Return the file to which events are appended, if LOGIST_LOG_FILE names one."""
        return self._get_value("LOGIST_LOG_FILE")

    def trusted_digest(self) -> str | None:
        """Return the digest of the project settings that the user trusts (LOGIST_TRUST), as in CI."""
        return self._get_value("LOGIST_TRUST")

    def make_plain(self) -> None:
        """Print only lines of text in this process, like LOGIST_PLAIN."""
        self._values["LOGIST_PLAIN"] = "1"

    def get_key(self, name: str) -> str | None:
        """Return the key in the variable that a model names in `api_key_env`."""
        value = self._get_value(name)
        return value.strip() or None if value else None

    def select_variables(self, names: Iterable[str]) -> dict[str, str]:
        """Return the named variables that are set, for programs to which a config passes them."""
        return {name: self._values[name] for name in names if name in self._values}

    def list_own_names(self) -> list[str]:
        """Return the names of Logist's own variables that are set, sorted."""
        return sorted(name for name, value in self._values.items() if name.startswith("LOGIST_") and value)

    def list_secrets(self, *named: str) -> tuple[str, ...]:
        """Return the values that must not reach a file, longest first.

        These are the values of variables whose names look like secrets, and of the `named` ones.
        """
        return tuple(sorted(self.map_secrets(*named), key=lambda value: (-len(value), value)))

    def map_secrets(self, *named: str) -> dict[str, str]:
        """Return the values that must not reach a file, each with the name of its variable."""
        from logist.core.secrets.secret_names import find_variable_secrets  # noqa: PLC0415 - `job list` doesn't need it

        return {
            secret: name
            for name, value in sorted(self._values.items())
            for secret in find_variable_secrets(name, value, named=name in named)
            if len(secret) >= _SHORTEST_SECRET
        }

    def build_child_environment(self) -> dict[str, str]:
        """Return the environment for a program that Logist starts: an allow-list without secrets."""
        return {name: value for name, value in self._values.items() if name in _CHILD or name in _PROXIES}

    def build_signing_environment(self) -> dict[str, str]:
        """Return the environment for a program that signs: it may also reach an ssh-agent, and ask the person."""
        return self.build_child_environment() | self.select_variables(_SIGNING)

    def _get_value(self, name: str) -> str | None:
        return self._values.get(name) or None

    def _find_xdg_directory(self, name: str, otherwise: str) -> str:
        named = self._get_value(name)
        if named and os.path.isabs(named):  # the XDG specification says to ignore relative paths
            return named
        return os.path.join(self._get_value("HOME") or _get_account_home(), otherwise)


def find_coven_directory(home: str) -> str | None:
    """Return the `.coven` directory next to a `.logist`, if there is one."""
    root, name = os.path.split(home)
    coven = os.path.join(root, COVEN_DIRECTORY)
    return coven if name == PROJECT_DIRECTORY and os.path.isdir(coven) else None


def list_config_directories(home: Path, user_config_dir: Path) -> tuple[Path, ...]:
    """Return the directories with settings, roles/ and workflows/; they may not exist; later ones override."""
    coven = find_coven_directory(str(home))
    return (user_config_dir, *((_to_path(coven),) if coven else ()), home)


def _to_path(name: str) -> Path:
    from pathlib import Path  # noqa: PLC0415 - takes a tenth of the start time of `job list`, which doesn't need it

    return Path(name)


def _get_account_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an account, as in containers
        return str(os.getuid())


def _get_account_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.sep


def require_utf8(text: str, what: str, fix: str) -> str:
    """Return the text.

    Raises UsageError for bytes that are no UTF-8: they are lone surrogates here, which no file can hold.
    """
    escaped = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if escaped != text:
        raise UsageError(f"{what} is not UTF-8 text", where=escaped, fix=fix)
    return text
