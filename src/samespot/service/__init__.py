"""A map behind HTTP: `samespot serve`."""
