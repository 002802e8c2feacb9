"""Whitening of descriptors: PCA, damped, or learned from graded labels; alone in a file or as a part of a model."""
