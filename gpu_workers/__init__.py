"""Privacy gateway: the code that runs on a device (encoder, handlers, jobs) and the engines that run it."""
