"""The benchmark, `make bench`. Each module measures one part and returns the rows of one table."""
