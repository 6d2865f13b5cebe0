"""The store in one process's memory: for tests, and for embedding with no infrastructure at all."""
