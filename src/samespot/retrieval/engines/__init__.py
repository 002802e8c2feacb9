"""What finds the nearest vectors: matrix products, one pass over the map, approximate indexes."""
