"""One study: what it is, how it runs, what comes of it."""
