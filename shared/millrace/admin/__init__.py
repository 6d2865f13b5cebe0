"""An operator's view of a deployment: queues, messages and dead letters, jobs over many of them, and who did what."""
