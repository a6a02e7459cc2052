def moments_of(event):
    return None
