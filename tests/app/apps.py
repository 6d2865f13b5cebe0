"""Small apps to try things on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from millrace.app.layout import App

QUEUE = """app Shop {
  queue Orders {
    message_type { payload: json }
    fed_by: api
    map_to: command Order.Ship { number: payload.number }
  }
  webhook Sales { queue: Orders  provider: github  secret_env: "SHOP_SIGNING_KEY" }
}
"""
HANDLER = """from millrace import command

@command("Order.Ship")
def ship(given):
    return given
"""


def make(folder: Path, files: Mapping[str, str] | None = None) -> App:
    """An app of one queue and its command, with more files or others in their place."""
    for name, text in {"queues/orders.millrace": QUEUE, "commands/orders.py": HANDLER, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return App(folder)
