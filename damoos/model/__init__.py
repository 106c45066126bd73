"""The values that all other parts pass to each other: frozen dataclasses, no input or output."""
