"""Training and sampling of what is learnt from a private release: post-processing, it costs nothing."""
