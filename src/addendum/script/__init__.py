"""Source text to what is known of it: names, bounds, rules, facts, sites (DESIGN sections 2 and 3)."""
