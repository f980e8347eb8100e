"""Erasing a text from a job: `job scrub`."""
