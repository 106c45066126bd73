"""Policies for machines with tiers of memory: where new pages go, and which are moved between fast and slow memory."""
