"""Machines: something leased that boots, executes, copies and releases. One path to all of them: the agent."""
