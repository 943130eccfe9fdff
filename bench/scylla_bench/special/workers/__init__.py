"""Tasks through the workers of the clients."""
