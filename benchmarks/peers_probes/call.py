"""Make one paid call: `call.py URL first`."""

import sys

from probing import call_model

print(call_model(*sys.argv[1:]))
