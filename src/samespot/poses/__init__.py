"""Where the camera stood: 6DOF poses from matched photos."""
