"""Texts written by hand with their personal data marked, and the figures of `/sanitize` on them."""
