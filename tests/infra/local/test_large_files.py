"""A large file through the local stack: by the command line up to the bucket, and down again under its claim."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from tests.infra.local.stack import Stack

#: 100 for the largest that there is.
MEGABYTES = int(os.environ.get("UPLOAD_MEGABYTES", "8"))
QUEUE = "app Media { queue Files { max_body_bytes: 104857600  fed_by: api  drained_by: api } }\n"


def test_a_file_that_no_request_carries_arrives_whole(tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / "queues").mkdir(parents=True)
    (app / "queues" / "files.millrace").write_text(QUEUE)
    data = random.Random(1).randbytes(MEGABYTES * 1024 * 1024)
    (tmp_path / "big.bin").write_bytes(data)
    stack = Stack(tmp_path / "home", "--no-tour", app=app)
    try:
        stack.wait_for("Ctrl-C")

        def millrace(*words: str) -> str:
            environment = {**os.environ, "MILLRACE_URL": stack.url, "MILLRACE_TOKEN": stack.token}
            command = [sys.executable, "-m", "millrace.cli", *words]
            return subprocess.run(
                command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=300
            ).stdout

        millrace("enqueue", "Files", "--body-file", "big.bin", "--content-type", "video/mp4")
        millrace("dequeue", "Files", "--payload-out", "got.bin")
        assert sha256((tmp_path / "got.bin").read_bytes()).digest() == sha256(data).digest()
        stored = [
            path for path in (stack.home / "s3").rglob("*") if path.is_file() and path.stat().st_size == len(data)
        ]
        assert len(stored) == 2, "the upload, and the message's own"
        stack.stop()
    finally:
        stack.end()
        if stack.process.stdout:
            stack.process.stdout.close()
