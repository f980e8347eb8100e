"""What people see: tables, bars, drawings, and the one module that prints."""
