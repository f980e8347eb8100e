"""The spend gate: a proxy on this machine, the only way from an agent program to a model.

Begin with `spend_gate.py`, the server. `paid_requests.py` decides what may be forwarded, and `paid_exchange.py` forwards it.
`recorder.py` has the interface to what records and reserves each request.
"""
