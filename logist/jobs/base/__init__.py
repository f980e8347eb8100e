"""What every use case on a job starts from: the project, the locked job, its spec, its readers."""
