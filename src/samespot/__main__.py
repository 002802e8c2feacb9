"""`python -m samespot`, the same as the `samespot` command."""

from samespot.cli import run

run()
