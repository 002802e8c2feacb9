"""From photos to vectors, and from a vector to the photos nearest to it."""
