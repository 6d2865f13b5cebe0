"""What happened to messages: the log that is written, and the checker that holds it against the promises."""
