"""The state machine: its table and events, the routing of workflows, and the limits of a job."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
