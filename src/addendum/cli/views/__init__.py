"""How values look to a person. A view takes a value and returns what rich prints; none decides anything."""
