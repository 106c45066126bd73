"""The kernel's words: schemes as text, as DAMON sysfs files and as damo's JSON.

Standard library only; the same code runs on the host and, inside the agent, on the target machine.
"""
