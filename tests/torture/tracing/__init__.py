"""The tracing process: a system call tracer in plain Python, for `tests.torture.tracer` alone.

It imports the standard library only and nothing of the product, so that it starts in a moment.
"""
