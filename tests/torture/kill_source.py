"""The user's repository, which a job starts from, and into which its work is merged."""

from __future__ import annotations

import subprocess

from tests import support
from tests.torture.lab import Json, World


def source(world: World) -> Json:
    """The state of the user's repository: commits, files, and what a command has left there."""
    repository = world.place / "repo"
    files = {
        name: value for name, value in support.tree(repository).items() if not f"{name}/".startswith(".git/")
    }
    left = [str(path.relative_to(repository)) for path in (repository / ".git").rglob("*")]
    return {
        "log": support.git(repository, "log", "--all", "--format=%H %D %s"),
        "status": support.git(repository, "status", "--porcelain"),
        "files": files,
        "left": sorted(name for name in left if name.endswith(".lock") or "/logist-" in name),
    }


def torn(sources: tuple[Json, Json] | None, world: World) -> list[str]:
    """Yield the problems after a kill: a commit that is incomplete, or a file that is neither the old nor the
    new one.
    """
    if sources is None:
        return []
    before, after, now = (*(each["files"] for each in sources), source(world)["files"])
    known = before.keys() | after.keys()
    torn = [name for name in known if now.get(name) not in (before.get(name), after.get(name), None)]
    torn += list(now.keys() - known)
    kept = [name for name in before if before[name] == after.get(name) != now.get(name)]
    git = ["git", "-C", str(world.place / "repo"), "fsck", "--full", "--no-dangling", "--no-progress"]
    done = subprocess.run(git, capture_output=True, text=True, env=world.env, check=False)
    problems = [f"git fsck of the source: {done.stdout}{done.stderr}"] if done.returncode else []
    return problems + [f"{name} in the source is neither as before nor as after" for name in (*torn, *kept)]
