"""The one way from "somebody sent something" to a checked draft: type, filter, keys, limits."""
