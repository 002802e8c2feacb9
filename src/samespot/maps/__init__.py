"""A map on disk: photos in, a question asked of it, a place and its probability out."""
