"""`millrace` and `python -m millrace.cli`: the command line, or a sentence about what it lacks."""

from __future__ import annotations

import sys

#: What `pip install millrace` brings along; without one of them the installation is broken.
PACKAGES = ("boto3", "cel", "click", "httpx", "lark", "rich", "yaml")


def run() -> None:
    """Run a command. A package that is not installed ends it with the line that installs it."""
    try:
        from millrace.cli.main import main

        main(prog_name="millrace")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        sys.exit(f"Error: {package} is not installed: pip install --upgrade millrace")


if __name__ == "__main__":
    run()
