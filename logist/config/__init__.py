"""The user's configuration: the environment (cheap to import) and config.yaml (`logist.config.settings`)."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
