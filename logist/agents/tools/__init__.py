"""The tools of a model: each call is checked, limited and recorded;
files outside of the workspace are never opened.
"""

from logist.agents.tools.calling import CHANGING, may_change, run_tool
from logist.agents.tools.context import Context, ToolOutcome

__all__ = ["CHANGING", "Context", "ToolOutcome", "may_change", "run_tool"]
