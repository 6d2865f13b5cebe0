"""Bulk work from Spark: enqueue a data set, follow a folder of work items, replay and reconcile by the million.

The modules that write, read and check know nothing of Spark; `frames`, `sources`, `enqueueing`, `deriving`, `replaying`
and `reconciling` put them to work on its executors. Only those import pyspark.
"""
