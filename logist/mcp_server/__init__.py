"""The MCP server of `logist mcp`: agents list, create and run jobs with it; decisions remain with people."""
