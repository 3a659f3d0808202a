"""Rehearsing: whole episodes against the production parts, before any money moves (cases/README.md)."""
