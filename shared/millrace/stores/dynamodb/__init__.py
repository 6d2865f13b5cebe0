"""The store on DynamoDB: PynamoDB describes the tables and writes single items, PartiQL batches the rest.

Nothing is imported here: a function that only enqueues must not pay for the other modules.
"""
