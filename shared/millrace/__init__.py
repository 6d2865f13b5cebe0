"""Millrace: a serverless queue for webhooks and jobs on AWS."""
