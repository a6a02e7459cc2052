"""The policies of the gateways that stand in front of a stub of a language model."""

POLICIES = """
[policies.kept]
proxy = { vault = true }
fill = { mode = "surrogate" }

[policies.kept-numbered]
proxy = { vault = true }
fill = { mode = "class_marker" }

[policies.forgotten]
fill = { mode = "surrogate" }

[policies.unread]
fill = { mode = "surrogate" }
proxy = { unread = ["provider", "messages.channel"] }

[policies.priced]
fill = { mode = "dp", epsilon = 4.0 }

[policies.priced-kept]
proxy = { vault = true }
fill = { mode = "dp", epsilon = 4.0 }

[policies.priced-texts]
fill = { mode = "dp", epsilon = 4.0, scope = "document" }
mask = { techniques = ["all"] }

[policies.priced-places]
fill = { mode = "metric_dp", epsilon = 2.5 }
mask = { entities = ["EMAIL_ADDRESS"] }

[policies.priced-words]
fill = { mode = "metric_dp", epsilon = 2.5 }
mask = { techniques = ["all"] }
"""
