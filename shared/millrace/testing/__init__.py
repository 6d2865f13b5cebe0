"""Testing an app: its own definitions and commands on the engine in memory, with a clock that the test moves.

    def test_an_order_is_shipped(app):
        answer = app.send_webhook("Sales", {"number": 7})
        app.drain()
        assert app.result(answer.message_id) == {"label": "7"}

`app` is a fixture of pytest, there wherever Millrace is installed.
"""

from millrace.testing.effects import Effects
from millrace.testing.explore import EffectsDiffer, Exploration, explore
from millrace.testing.kit import AppUnderTest, DeadLetterSummary, WebhookAnswer

__all__ = ["AppUnderTest", "DeadLetterSummary", "Effects", "EffectsDiffer", "Exploration", "WebhookAnswer", "explore"]
