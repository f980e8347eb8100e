"""Finds secrets in text and replaces them."""
