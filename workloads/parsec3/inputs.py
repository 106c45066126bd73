"""Makes an input of a program of PARSEC's in this folder: inputs.py PROGRAM FOLDER [WORD ...].

WORD is an argument of the program; the one that names a file says by its number how large that is (g4096.txt). A file
that an archive in FOLDER holds, as a release of PARSEC does, is taken from there instead. The same words always make
the same bytes; none of them is PARSEC's.
"""

from __future__ import annotations

import random
import re
import sys
import tarfile
from array import array
from collections.abc import Callable
from itertools import accumulate, islice, product
from pathlib import Path

Make = Callable[[Path, "list[int]"], None]


def blackscholes(file: Path, size: list[int]) -> None:
    """So many options: spot, strike, rate, dividend rate, volatility, years, put or call, dividends, a reference."""
    dice = random.Random(1)
    with file.open("w") as out:
        out.write(f"{size[0]}\n")
        for _ in range(size[0]):
            spot, strike, years = dice.uniform(30, 150), dice.uniform(30, 150), dice.choice((0.25, 0.5, 0.75, 1.0))
            rate, volatility = dice.uniform(0.02, 0.1), dice.uniform(0.1, 0.6)
            out.write(
                f"{spot:.2f} {strike:.2f} {rate:.4f} 0.00 {volatility:.2f} {years} {dice.choice('PC')} 0.00 0.0\n"
            )


def canneal(file: Path, size: list[int]) -> None:
    """A netlist of so many elements with three to five inputs each, half of them from near by."""
    dice = random.Random(1)
    count, side = size[0], int(size[0] ** 0.5) + 2
    with file.open("w") as out:
        out.write(f"{count} {side} {side}\n")
        for own in range(count):
            near = [max(0, min(count - 1, own + dice.randint(-100, 100))) for _ in range(2)]
            far = [dice.randrange(count) for _ in range(dice.randint(1, 3))]
            out.write(f"e{own}\t{dice.randint(1, 2)}\t{' '.join(f'e{other}' for other in near + far)} END\n")


def dedup(file: Path, size: list[int]) -> None:
    """So many MiB: 4 KiB blocks of words, three in ten of them as one before."""
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(2, 10))).encode() for _ in range(5000)]
    blocks: list[bytes] = []
    with file.open("wb") as out:
        for _ in range(size[0] * 256):
            if not blocks or dice.random() > 0.3:
                blocks.append(b" ".join(dice.choices(words, k=800))[:4096].ljust(4096))
            out.write(dice.choice(blocks[-512:]))


def fluidanimate(file: Path, size: list[int]) -> None:
    """So many particles at rest: a block of fluid that is let go, in one half of the box that the program knows."""
    count = size[0]
    low, high = (-0.065, -0.08, -0.065), (0.065, 0.1, 0.065)
    width = [(end - start) * part for start, end, part in zip(low, high, (0.5, 1.0, 1.0), strict=True)]
    apart = (width[0] * width[1] * width[2] / count) ** (1 / 3)
    steps = [int(side / apart) + 1 for side in width]
    values = array("f", [1 / apart])
    particles = array("f")
    for place in islice(product(*(range(step) for step in steps)), count):
        particles.extend(start + apart * (step + 0.5) for start, step in zip(low, place, strict=True))
        particles.extend((0.0,) * 6)
    with file.open("wb") as out:
        values.tofile(out)
        array("i", [len(particles) // 9]).tofile(out)
        particles.tofile(out)


def freqmine(file: Path, size: list[int]) -> None:
    """So many visits of eight pages on average, some pages far more often than others."""
    dice = random.Random(1)
    pages = range(1, 20_001)
    weights = list(accumulate(1 / page for page in pages))
    with file.open("w") as out:
        for _ in range(size[0]):
            visited = set(dice.choices(pages, cum_weights=weights, k=max(1, int(dice.expovariate(1 / 8)))))
            out.write(" ".join(str(page) for page in sorted(visited)) + "\n")


def x264(file: Path, size: list[int]) -> None:
    """A clip of width x height, so many frames: a pattern that moves, with noise."""
    width, height, frames = size
    dice = random.Random(1)
    noise = bytes(dice.choices(range(16), k=width))
    row = bytes((x * x // 97 + noise[x]) % 200 + 16 for x in range(width)) * 3
    with file.open("wb") as out:
        out.write(f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1\n".encode())
        for frame in range(frames):
            out.write(b"FRAME\n")
            for y in range(height):
                start = (frame * 3 + y * y // 53) % width
                out.write(row[start : start + width])
            for plane in range(2):
                colour = (frame + 64 * plane + 96) % 200 + 20
                out.write(bytes((colour,)) * (width // 2 * (height // 2)))


MAKERS: dict[str, Make] = {
    maker.__name__: maker for maker in (blackscholes, canneal, dedup, fluidanimate, freqmine, x264)
}


def unpacked(folder: Path, name: str) -> bool:
    """Whether an archive of the suite's holds the file, which then lies here."""
    for archive in sorted(folder.glob("input_*.tar")):
        with tarfile.open(archive) as held:
            for member in held:
                if Path(member.name).name == name and member.isfile():
                    member.name = name
                    held.extract(member, filter="data")
                    return True
    return False


def main() -> None:
    """Make or unpack the one file that the words name."""
    program, folder, *words = sys.argv[1:]
    (name,) = (word for word in words if re.fullmatch(r"[\w-]+\.(txt|nets|dat|iso|fluid|y4m)", word))
    if unpacked(Path(folder), name):
        return
    if not name.startswith("g"):
        sys.exit(f"{name} is not in an archive input_*.tar in {folder}: get the suite's inputs, or choose another one")
    MAKERS[program](Path(name), [int(number) for number in re.findall(r"\d+", name.removesuffix(".y4m"))])


if __name__ == "__main__":
    main()
