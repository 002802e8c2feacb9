"""How sure a figure is: intervals of shares, thresholds of acceptance, and whether probabilities come true."""
