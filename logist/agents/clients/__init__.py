"""The clients that call models: the built-in one, for the providers in `config/providers.py`, and litellm for all others."""
