"""Nouns: messages, queue specs, errors, ids, time, keys. Plain values, no I/O."""
