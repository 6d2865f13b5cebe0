"""An app: somebody's own queues, commands, requirements and template, run and deployed with the bundle."""
