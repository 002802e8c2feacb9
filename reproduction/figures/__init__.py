"""The paper's figures from our data."""
