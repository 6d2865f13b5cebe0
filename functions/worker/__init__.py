"""The worker: the function that works off queues."""
