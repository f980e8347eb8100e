"""The version of Logist; a module of its own, so that the lowest modules can name it without importing the interface."""

__version__ = "0.1.0"
