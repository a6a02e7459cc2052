"""Privacy gateway: what runs on a device (encoder, handlers, jobs) and the engines that run it."""
