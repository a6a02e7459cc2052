"""Private fine-tuning: what Table I of EW-Tune costs, accuracy by calibration and method, speed beside Opacus."""
