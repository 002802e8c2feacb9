"""TRAINING: the graded loss, the batches it is fed with, and the loop that turns them into a model."""
