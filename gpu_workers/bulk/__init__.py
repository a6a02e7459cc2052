"""Bulk releases: reading documents from uploads and stores, and writing private results in parts."""
