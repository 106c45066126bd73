"""One study for people: its result, its figure, its progress."""
