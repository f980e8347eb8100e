"""Agent programs: coding agents and other command-line tools that do the work of a role."""
