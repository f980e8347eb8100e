"""The clients that call models: the built-in one, for the providers in `config/providers.py`, and litellm for all others."""

from logist.lazy_modules import load_on_use

load_on_use(globals())
