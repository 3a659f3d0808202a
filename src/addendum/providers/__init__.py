"""Providers: whoever does the work of capabilities."""
