"""The admin API and the console: a Chalice app behind an HTTP API."""
