"""What a model does in a workspace: each call is checked, bounded and told; nothing outside is opened."""

from logist.agents.tools.calling import CHANGING, run_tool
from logist.agents.tools.context import Context, ToolOutcome

__all__ = ["CHANGING", "Context", "ToolOutcome", "run_tool"]
