"""Parts of other libraries that use the gateway. One module for each library, imported by its own name alone."""
