"""What the controller does at each step of a simulation, in order."""
