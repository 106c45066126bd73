"""Recordings of memory accesses: what DAMON saw, snapshot by snapshot, and what can be read from it."""
