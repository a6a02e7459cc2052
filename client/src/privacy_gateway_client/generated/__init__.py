# Written by `make client` from asynchronous/__init__.py. Do not edit.
"""The calls of a client: one module for each group of routes, and the connection that they share."""
