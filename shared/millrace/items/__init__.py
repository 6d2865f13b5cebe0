"""Work items: a folder of markdown files is the queue. Needs neither Spark nor a server."""
