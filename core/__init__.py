"""Privacy gateway: the mathematics, the text rules and the budget ledger. Imports nothing of the other two packages."""
