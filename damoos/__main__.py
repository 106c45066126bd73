"""``python -m damoos``."""

from damoos.cli import main

main()
