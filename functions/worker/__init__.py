"""The worker: the function that drains queues."""
