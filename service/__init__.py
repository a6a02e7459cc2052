"""Privacy gateway: the HTTP front end and the command line."""
