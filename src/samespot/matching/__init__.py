"""A second look at the first photos of a list: what lies where in them decides the order."""
