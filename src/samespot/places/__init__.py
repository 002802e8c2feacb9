"""Where was each photo taken: the `Places` table, geodesy, and one reader per data set."""
