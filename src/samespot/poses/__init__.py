"""Poses: where a camera stood and how it looked, from what it has in common with photos of a map."""
