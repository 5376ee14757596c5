"""Why a request misses the symbolic engine: local estimates, off the path of a request."""
