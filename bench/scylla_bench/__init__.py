"""The benchmark of scylla: `make bench`, or bench/run."""
