"""The spend gate: a proxy on this machine, the only way from an agent program to a model.

Begin with `spend_gate.py`, the server. `recorder.py` has the interface to what records and reserves each request.
"""
