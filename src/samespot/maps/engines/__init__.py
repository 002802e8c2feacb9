"""What finds the photos of a map with the nearest descriptors: this process, a faiss index, or Milvus."""
