"""``python -m mmref`` is the command ``mmref``."""

from mmref.cli import main

main()
