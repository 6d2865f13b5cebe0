"""Sample deliveries on disk: a body as a provider sends it, and a sidecar that says how it travels.

`<name>.sidecar.json` holds `verify` (as a definition says it), `event`, `body` (a file beside it), `content_type`,
`headers` and `delivery_id`. No sample holds a signature: it is signed when it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.signatures.presets import scheme_from
from millrace.signatures.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Sample:
    """One delivery, unsigned."""

    name: str
    scheme: Scheme
    event: str
    body: bytes
    headers: Mapping[str, str]
    delivery_id: str


def sample_names(folder: Path) -> list[str]:
    """The samples of a folder, sorted."""
    return sorted(path.name.removesuffix(".sidecar.json") for path in folder.glob("*.sidecar.json"))


def load_sample(folder: Path, name: str) -> Sample:
    """Read a sample. Raises FileNotFoundError for a name that the folder does not hold."""
    sidecar = json.loads((folder / f"{name}.sidecar.json").read_text("utf-8"))
    return Sample(
        name=name,
        scheme=scheme_from(sidecar["verify"]),
        event=sidecar["event"],
        body=(folder / sidecar["body"]).read_bytes(),
        headers={"content-type": sidecar["content_type"], **sidecar["headers"]},
        delivery_id=sidecar.get("delivery_id", ""),
    )
