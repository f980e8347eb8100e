"""The base of every use case on a job: the project, the locked job, its spec, its readers."""
