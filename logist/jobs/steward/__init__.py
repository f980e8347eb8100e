"""What people decide about a job."""
