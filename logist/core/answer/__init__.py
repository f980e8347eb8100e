"""The agent's answer: its exit command, the schema of its output, its evidence."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
