"""Prepares a recorded history for sharing: replaces private values, and keeps the result of a replay.

A value has the same stand-in everywhere, with the same length. `private_values` collects private values in a first
pass, `replacing` replaces them in a second pass, and `entry` knows which parts of an interaction are text. All of
them process one text at a time.
"""

from logist.core.share.entry import changed, leaks, texts, unmatched
from logist.core.share.private_values import Private
from logist.core.share.replacing import Replacing

__all__ = ["Private", "Replacing", "changed", "leaks", "texts", "unmatched"]
