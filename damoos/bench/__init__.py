"""What damoos measures about itself: its searchers on known curves, its verdicts on runs that are all the same."""
