"""Pixels: one way from files to tensors, for training, validation, mining, describing and local features."""
