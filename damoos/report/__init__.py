"""What people look at: figures, tables, progress."""
