"""Private synthesis of tables: one accounted release, then anything at no further cost."""
