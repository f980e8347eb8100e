"""Agent programs: coding agents and other command-line tools that do the work of a role.

`protocol.py` has the interface, `finding.py` finds a program by name, and `described.py` is a program that the config
describes. `reach.py` (address and key), `output.py`, `trouble.py` (errors) and `litellm_names.py` are shared. Each other
module is one program.
"""
