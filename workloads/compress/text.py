"""Writes ./text, so many MiB of words from a dictionary of chance: text.py MIB."""

import random
import sys

dice = random.Random(1)
words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 10))) for _ in range(20_000)]
blocks = [" ".join(dice.choices(words, k=8192)).encode() for _ in range(64)]
left = int(sys.argv[1]) << 20
with open("text", "wb") as file:
    while left > 0:
        left -= file.write(dice.choice(blocks)[:left])
