"""Private fine-tuning without the model: the plan with its certificate, the sampling, the noise."""
