"""WHERE each image was taken: the `Places` table, geodesy, and one reader per data set."""

from samespot.places.table import Places

__all__ = ["Places"]
