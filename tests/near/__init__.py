"""Runs the tests that reach what differs from a commit: `scripts/test --near`; `--record` first notes what reaches what.

Coverage tools see neither the processes that a test starts and kills, nor the files that it reads, nor the code
that runs once in a process: at import, in a wide fixture, behind a cache. So the record is made here:

- `sources` divides a module into units, its functions and methods, and puts a mark at the head of each.
- `hook` runs first in every Python process of the environment and gives it those marks: bytes of a file in shared
  memory, so that they outlive a SIGKILL. It also notes which files of this checkout a process opens or starts.
- `plugin` reads and clears the marks around each test.
- `record` keeps them; `choosing` compares them with what changed. `graph` and `tree` know imports and files.

A test without a usable record runs if its file imports what changed, however far.
"""
