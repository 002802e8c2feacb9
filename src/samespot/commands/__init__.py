"""What the commands do between reading their options and calling the library."""
