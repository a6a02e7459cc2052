"""Utility and speed of sentence-level release, in the form of Figure 4 of Meehan, Mrini and Chaudhuri 2022."""
