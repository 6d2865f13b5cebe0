"""Webhooks on their way in: read the request, authenticate its sender, and hand the message to its queue.

    event ─► read_request ─► Ingress.endpoint_at ─► accept ─► answer
              413 400          404               401 422 503    202 · 200 · the preset's own code

`serve` is the whole way, with an answer for whatever happens on it.
"""

from millrace.webhooks.endpoint import Ingress
from millrace.webhooks.serve import Served, serve

__all__ = ["Ingress", "Served", "serve"]
