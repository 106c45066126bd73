"""Many studies for people: matrix, curves, progress, spread."""
