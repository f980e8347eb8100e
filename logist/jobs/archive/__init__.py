"""Recorded jobs: find, replay, compare, count, import, export and fork them."""
