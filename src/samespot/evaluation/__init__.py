"""How good is it? Protocols, metrics with intervals, calibration, and files for public benchmarks."""
