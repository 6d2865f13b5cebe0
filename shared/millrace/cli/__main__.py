"""`python -m millrace.cli`."""

from millrace.cli.main import main

main(prog_name="millrace")
