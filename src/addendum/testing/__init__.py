"""Doubles of the ports, for tests of what uses Addendum: each passes its port's suite in tests/conformance."""
