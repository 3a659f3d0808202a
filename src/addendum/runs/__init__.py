"""The use cases that the command line, the service and the library share."""
