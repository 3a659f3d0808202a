"""What a run may do: the catalog of capabilities, the grant, and the accounts. Arithmetic only (DESIGN section 7)."""
