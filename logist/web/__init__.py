"""The steward's page: what waits for a person, in a browser on the same machine.

The page calls the functions that the command line calls, in this process. `server.py` puts it together, `guard.py`
refuses requests that a person did not make, `sessions.py` lets people in, and `pages/` has one module for each page.
"""
