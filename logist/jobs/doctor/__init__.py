"""Finding and repairing what is wrong with the files of a job."""
