"""The built-in world: a procedural town that renders photos with full ground truth."""
