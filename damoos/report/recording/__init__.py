"""One recording for people: its charts, and what it predicts."""
