"""From a function's environment to a runtime on AWS: settings, clients, large bodies, secrets."""
