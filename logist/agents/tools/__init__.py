"""The tools of a model: each call is checked, limited and recorded;
files outside of the workspace are never opened.
"""

from logist.agents.tools.calling import CHANGING, run_tool
from logist.agents.tools.context import Context, ToolOutcome

__all__ = ["CHANGING", "Context", "ToolOutcome", "run_tool"]
