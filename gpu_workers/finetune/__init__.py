"""Private fine-tuning of a transformer classifier: per-sample gradients, the training loop, the artifact."""
