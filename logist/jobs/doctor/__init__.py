"""Finds and repairs problems in the files of a job."""
