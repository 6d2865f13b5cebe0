"""The language of queue definitions: text to compiled JSON. Needed to compile, never to run."""
