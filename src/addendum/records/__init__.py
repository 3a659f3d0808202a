"""What is durable: the entries of a run's journal, and what follows from them (DESIGN sections 1 and 4)."""
