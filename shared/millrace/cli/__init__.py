"""The `millrace` command line. One module for each group of commands; `main` only puts them together."""
