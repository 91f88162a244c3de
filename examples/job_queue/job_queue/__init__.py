"""A job queue with a web page, on an embedded node."""
