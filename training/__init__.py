"""Training of the shipped weights: packs, routes and adapters. It is no part of the distribution."""
