"""Bulk releases: what a request names as its source and its target, and the operator's stores."""
