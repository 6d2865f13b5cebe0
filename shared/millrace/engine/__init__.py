"""What a queue does: enqueue, poll, claim, finish, retry, bury, look, operate, sweep. Verbs that take a `Queue`."""
