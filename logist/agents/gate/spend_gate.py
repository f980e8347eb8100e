"""The server that programs talk to instead of to a provider."""
