"""How published models make one vector of a trunk's features, one file each. `pooling` gives them their names."""
