"""The HTTP APIs: requests from API Gateway events, routes from one table, answers as problem documents or JSON."""
