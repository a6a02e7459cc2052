"""Synthetic rows of UCI Adult and of small images, beside DP-MERF and the figures of the PEARL paper."""
