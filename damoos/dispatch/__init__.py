"""Placing runs on machines."""
