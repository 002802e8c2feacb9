"""The one exception that means: the user's input is wrong, and here is what to do about it."""


class InputError(ValueError):
    """One line that says what is wrong, where, and what to do. The command line prints it and exits with 2."""
