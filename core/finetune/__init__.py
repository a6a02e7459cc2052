"""Private fine-tuning, what needs no model: the plan with its certificate, the sampling, the noise."""
