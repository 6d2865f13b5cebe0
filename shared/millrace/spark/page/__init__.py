"""A report to look at: what a queue did, as SQL views, as figures and as one HTML page with plots."""
