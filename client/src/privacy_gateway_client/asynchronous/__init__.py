"""The calls of a client: one module for each group of routes, and the connection that they share."""
