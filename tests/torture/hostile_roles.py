"""What roles try without permission: each change is refused or undone, and the job stops for its steward."""

from __future__ import annotations

from tests.torture.hostile_site import ANYTHING, CACHE, PERMISSION, REVIEW, Attempt

CHANGES = {
    "modify": 'spoil("kept.txt", "src/app.py")',
    "append": 'open("kept.txt", "a").write("x")',
    "same-size-and-time": 's = os.stat("kept.txt"); open("kept.txt", "r+").write("KEPT"); os.utime("kept.txt", ns=(s.st_atime_ns, s.st_mtime_ns))',
    "mode": 'os.chmod("kept.txt", 0o755); os.chmod("src/app.py", 0o700)',
    "delete": 'os.unlink("kept.txt"); shutil.rmtree("src")',
    "empty": 'sh("rm -rf * .gitignore")',
    "rename": 'os.rename("kept.txt", "renamed.txt")',
    "rename-in-case": 'os.rename("Case.txt", "case.txt")',
    "rename-directory": 'os.rename("src", "Src")',
    "swap-files": 'os.rename("kept.txt", "t"); os.rename("Case.txt", "kept.txt"); os.rename("t", "Case.txt")',
    "directory-for-file": 'os.unlink("kept.txt"); os.makedirs("kept.txt/a")',
    "file-for-directory": 'shutil.rmtree("src"); spoil("src")',
    "link-for-file": 'os.unlink("kept.txt"); os.symlink("Case.txt", "kept.txt")',
    "link-for-directory": 'os.rename("src", "src2"); os.symlink("src2", "src")',
    "link-out-for-directory": 'shutil.rmtree("src"); os.symlink(OUTSIDE, "src")',
    "link-elsewhere": 'os.unlink("link"); os.symlink("Case.txt", "link")',
    "through-link": 'spoil("link")',
    "through-hard-link": 'os.link("kept.txt", "h"); spoil("h"); os.unlink("h")',
    "through-mapping": 'import mmap\nwith open("kept.txt", "r+b") as file: mmap.mmap(file.fileno(), 0)[0:4] = b"KEPT"',
    "ignored": 'spoil("ignored/old.txt", "old.log")',
    "un-ignored": 'spoil(".gitignore", text="*")\nspoil("kept.txt")',
    "ignored-by-git": 'sh("git init -q; mkdir -p .git/info; echo \'*\' > .git/info/exclude; git config core.excludesFile /dev/null"); spoil("kept.txt")',
    "huge": 'with open("big.bin", "r+b") as file: file.write(b"B")',
    "made-huge": 'with open("kept.txt", "r+b") as file: file.truncate(900_000)',
    "git-checkout": 'sh("git init -q; git add -A; git -c user.name=x -c user.email=x commit -qm x; echo y > kept.txt; git stash -q; git rm -q kept.txt")',
    "git-assume-unchanged": 'sh("git init -q; git add -A; git update-index --assume-unchanged kept.txt; git update-index --skip-worktree src/app.py"); spoil("kept.txt", "src/app.py")',
    "pipe-for-file": 'os.unlink("kept.txt"); os.mkfifo("kept.txt")',
    "locked": 'spoil("src/app.py"); os.chmod("src/app.py", 0); os.chmod("src", 0)',
    "while-it-looks": 'subprocess.Popen(["setsid", "sh", "-c", "while :; do echo x > kept.txt; done"], stdin=-3, stdout=-3, stderr=-3); time.sleep(0.3)',
    "nested-repository": 'sh("git init -q src; cd src && echo x > app.py && git add -A && git -c user.name=x -c user.email=x commit -qm x")',
    "deep": 'shutil.rmtree("src"); os.mkdir("src"); os.chdir("src")\nfor n in range(1500): os.mkdir("d"); os.chdir("d")',
}  # fmt: skip
"""Each changes or deletes existing files."""

MAKING = {
    "create": 'spoil("new.txt", "src/new.txt")',
    "create-directory": 'os.makedirs("new/empty/dirs")',
    "create-ignored": 'spoil("ignored/new.txt", "new.log")',
    "create-link": 'os.symlink("/etc/passwd", "new-link"); os.symlink(OUTSIDE, "out-link")',
    "create-hard-link": 'os.link("kept.txt", "second")',
    "create-pipe": 'os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("socket")',
    "create-huge": 'with open("huge", "wb") as file: file.truncate(900_000)',
    "create-odd": 'Path(os.fsdecode(b"\\xff\\x1b[2J\\n")).touch()',
    "create-repository": 'sh("git init -q new; cd new && echo x > f && git add -A && git -c user.name=x -c user.email=x commit -qm x")',
    "create-many": 'os.mkdir("m")\nfor n in range(1500): Path(f"m/{n}").touch()',
}  # fmt: skip
"""Each creates something new."""

CACHES = {
    "cache": 'spoil("node_modules/pkg/index.js", "node_modules/new.js")',
    "cache-removed": 'shutil.rmtree("node_modules")',
    "cache-for-file": 'os.rename("src", "node_modules/src")',
}
SMALL = {"workspace": {"max_checkpoint_bytes": 200_000}}
"""Makes `big.bin` too large for a checkpoint."""


def _attempt(role: str, name: str, body: str, *, boxed: str, quick: bool = False) -> Attempt:
    """An attempt of a role. `boxed`: the result in a sandbox; without one it is always detected and undone."""
    huge = SMALL if "huge" in name else {}
    lost = ("big.bin",) if huge else (CACHE,) if "cache" in name or name == "empty" else ()
    return Attempt(
        f"{role.lower()}-{name}",
        body,
        ends=(boxed,),
        role=role,
        same=True,
        plus=(ANYTHING,) if role == "Designer" else (),
        lost=lost,
        free=(PERMISSION,),
        quick=quick,
        config=huge,
    )


def _all() -> list[Attempt]:
    readers = [
        _attempt("Reviewer", name, body, boxed=REVIEW) for name, body in (CHANGES | MAKING | CACHES).items()
    ]
    designers = [
        _attempt("Designer", name, body, boxed=PERMISSION, quick=name == "same-size-and-time")
        for name, body in (CHANGES | CACHES).items()
    ]
    testers = [
        _attempt("Tester", name, body, boxed=PERMISSION, quick=name == "link-for-directory")
        for name, body in (CHANGES | MAKING).items()
    ]
    return [*readers, *designers, *testers]


ALLOWED = (
    Attempt("designer-may-create", MAKING["create"], role="Designer", same=True, plus=("new.txt", "src/new.txt"), free=(REVIEW,)),
    Attempt("tester-may-leave-caches", 'spoil("node_modules/new.js")', role="Tester", same=True, plus=("node_modules/new.js",), free=(REVIEW,)),
    Attempt("reviewer-may-look", 'steal("kept.txt", "ignored/old.txt")', role="Reviewer", same=True, free=(REVIEW,)),
)  # fmt: skip
"""What the roles may do does not count as a breach."""

ATTEMPTS = (*_all(), *ALLOWED)
