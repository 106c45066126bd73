"""What runs on the target machine: standard library only, shipped as one zipapp over SSH.

It alone touches the target's kernel. Whatever it changes it writes down first (`undo`), and puts back on every
way out: at the end, on an error, when its controller vanishes, and, by a guardian process, when it is killed.
"""
