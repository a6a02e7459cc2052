"""The policies of the gateways that stand in front of a stub of a language model."""

POLICIES = """
[policies]
kept = { proxy = { vault = true }, fill = { mode = "surrogate" } }
kept-numbered = { proxy = { vault = true }, fill = { mode = "class_marker" } }
forgotten = { fill = { mode = "surrogate" } }
no-cards = { fill = { mode = "surrogate" }, proxy = { block = ["CREDIT_CARD"] } }
unread = { fill = { mode = "surrogate" }, proxy = { unread = ["provider", "messages.channel"] } }
by-patterns = { fill = { mode = "surrogate" }, proxy = { system = "patterns" } }
trusting = { fill = { mode = "surrogate" }, proxy = { system = "pass" } }
priced = { fill = { mode = "dp", epsilon = 4.0 } }
priced-kept = { proxy = { vault = true }, fill = { mode = "dp", epsilon = 4.0 } }
priced-answers = { proxy = { vault = true }, fill = { mode = "metric_dp", epsilon = 2.5 } }
priced-texts = { fill = { mode = "dp", epsilon = 4.0, scope = "document" }, mask = { techniques = ["all"] } }
priced-places = { fill = { mode = "metric_dp", epsilon = 2.5 }, mask = { entities = ["EMAIL_ADDRESS"] } }
priced-words = { fill = { mode = "metric_dp", epsilon = 2.5 }, mask = { techniques = ["all"] } }
"""
