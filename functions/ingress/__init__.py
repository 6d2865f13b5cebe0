"""The ingress: the function behind `POST /hook/{name}`."""
