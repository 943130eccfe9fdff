"""Workloads that start servers beside the one that is measured: a router with its shards."""
