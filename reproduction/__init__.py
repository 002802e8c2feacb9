"""The paper: its claims, measured again on the data at hand, and its figures, drawn again from our runs.

Built on samespot, not part of its wheel: run `python -m reproduction` in a clone of the repository.
"""
