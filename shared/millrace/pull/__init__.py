"""The pull API: enqueue, dequeue, ack, nack, release and extend over HTTP, for workers that live elsewhere."""
