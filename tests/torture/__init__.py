"""The torture suite: tests the promises of Logist against kills, power cuts, full disks and many processes at once.

`scripts/torture` runs all of it, or the parts named; `test_slices.py` runs a short slice of every case
with the ordinary tests. docs/reliability.md shows the numbers of the last recorded run.
"""
