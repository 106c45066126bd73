"""Interrupts are not lost, wherever they arrive."""

from __future__ import annotations

import subprocess
import sys

# What a finalizer raises is ignored by Python, and so is an interrupt that arrives in one.
PROGRAM = """
import os, signal, time
from damoos.cli import take_interrupts

class Gone:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)

take_interrupts()
gone = Gone()
try:
    del gone
    print("went on")
    time.sleep(60)
except KeyboardInterrupt:
    print("heard")
"""


def test_an_interrupt_in_a_finalizer_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("went on\nheard\n", "")
