"""The claims of the paper, measured again on the data at hand."""
