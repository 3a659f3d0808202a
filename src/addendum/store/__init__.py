"""Backends of the `Store` port: SQLite on disk, and one in memory. Only `addendum.wiring` and `addendum.testing`
import them."""
