"""What runs inside the machine: it runs the scenarios, and has what they share."""
