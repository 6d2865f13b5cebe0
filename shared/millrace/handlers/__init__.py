"""What a handler is, wherever it runs: `(input, context)`, sync or async, and the exceptions that end a run.

    command, Worker          in the bundle: Lambda, a container, the local stack
    Consumer, AsyncConsumer  over the pull API
    millrace work --command  in a shell

No module here knows an engine or a network: `millrace.worker` and `millrace.client` each bring their own context.
"""
