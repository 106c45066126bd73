"""Policies in service: a process of their own keeps each."""
