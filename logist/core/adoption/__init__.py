"""Turns recorded sessions of other agent programs into histories."""
