"""What nri costs: `make bench`. Each module measures one thing, and gives rows for one table."""
