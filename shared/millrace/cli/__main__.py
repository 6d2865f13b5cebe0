"""`millrace` and `python -m millrace.cli`: the command line, or a sentence about what it lacks."""

from __future__ import annotations

import sys

#: Where each package that a command may need comes from.
EXTRAS = {"click": "cli", "rich": "cli", "httpx": "cli", "lark": "cli", "cel": "cli", "yaml": "local"}


def run() -> None:
    """Run a command. A package that is not installed ends it with the line that installs it."""
    try:
        from millrace.cli.main import main

        main(prog_name="millrace")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        sys.exit(f"Error: {package} is not installed: pip install 'millrace[{EXTRAS[package]}]'")


if __name__ == "__main__":
    run()
