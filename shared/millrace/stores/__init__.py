"""Stores that keep the queue: `dynamodb` for the cloud and the laptop, `memory` for tests and embedding."""
