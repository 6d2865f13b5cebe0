"""The pull API's Lambda function."""
