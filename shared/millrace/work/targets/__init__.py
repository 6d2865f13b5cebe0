"""Where the work of a message is done: commands of the bundle, HTTP, Lambda, another queue."""

from millrace.work.targets.delivery import Deliver, Throttled
from millrace.work.targets.plan import Plan, target_name

__all__ = ["Deliver", "Plan", "Throttled", "target_name"]
