"""Bulk work from Spark: enqueue a data set, follow a folder of work items, replay and reconcile by the million.

The modules that shape, write and check know nothing of Spark; `sources`, `enqueueing`, `looking`, `deriving`,
`reporting` and `running` put them to work on its executors.
"""
