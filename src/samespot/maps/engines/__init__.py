"""What finds the photos of a map with the nearest descriptors: this process, an index by faiss, or Milvus."""
