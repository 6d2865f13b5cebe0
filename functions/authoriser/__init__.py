"""The authoriser's Lambda function."""
