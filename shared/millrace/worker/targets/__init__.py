"""Where the work of a message is done: commands of the bundle, HTTP, Lambda, another queue."""

from millrace.worker.targets.plan import TargetPlan, target_name
from millrace.worker.targets.request import Deliver, Throttled

__all__ = ["Deliver", "TargetPlan", "Throttled", "target_name"]
