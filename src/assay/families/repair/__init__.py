"""Code repair: patches, judged by tests in the sandbox."""
