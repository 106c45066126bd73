"""What runs: a command, or a program of memory accesses; how its performance is read; its unit work time."""
