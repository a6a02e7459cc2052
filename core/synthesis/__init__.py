"""Private synthesis of tables: one accounted release. Everything derived from it has no further cost."""
