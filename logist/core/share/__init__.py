"""Makes a recorded history fit to share: what is private in it is replaced, and it still goes the same way.

A value has the same stand-in wherever it is, and that is as long as the value. `private_values` says what is
private in a first reading, `replacing` takes it out in a second one, `entry` knows what in an interaction
is text; all of them see one text at a time.
"""

from logist.core.share.entry import changed, leaks, texts, unmatched
from logist.core.share.private_values import Private
from logist.core.share.replacing import Replacing

__all__ = ["Private", "Replacing", "changed", "leaks", "texts", "unmatched"]
