"""Training on a private release, and sampling from the result. Both are post-processing and cost no budget."""
