"""What finds the nearest vectors: matrix products, faiss, approximate indexes."""
