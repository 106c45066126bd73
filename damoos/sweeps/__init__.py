"""Many studies on many machines: what a sweep is, and who drives it."""
