"""What if: replays a recorded job under other rules, with the recorded answers and decisions."""

from logist.core.whatif.keys import KEYS, read_permissions, read_settings
from logist.core.whatif.rules import ChangedRules
from logist.core.whatif.running import run
from logist.core.whatif.told import RoleCalls, WhatIfRun, WhatIfSpending, alike, named

__all__ = [
    "KEYS",
    "ChangedRules",
    "RoleCalls",
    "WhatIfRun",
    "WhatIfSpending",
    "alike",
    "named",
    "read_permissions",
    "read_settings",
    "run",
]
