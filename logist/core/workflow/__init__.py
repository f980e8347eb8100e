"""Workflows: from a diagram or a list of steps to a graph that a job can follow."""
