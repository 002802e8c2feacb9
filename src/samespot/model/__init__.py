"""MODEL: the network that turns a photo into one vector, its weights, its preprocessing and its files."""
