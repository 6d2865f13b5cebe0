"""Bulk work on Spark: a job for Glue, EMR and spark-submit."""
