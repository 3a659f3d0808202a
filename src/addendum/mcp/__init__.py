"""Addendum as an MCP server: a coding agent's workflow tool, under a grant that the agent can't widen."""
