"""The tracing process: a system call tracer in plain Python, for `tests.torture.tracer` alone.

It imports only the standard library and nothing of Logist, so that it starts quickly.
"""
