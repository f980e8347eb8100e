"""What people see: tables, bars, drawings, and the one place that prints."""
