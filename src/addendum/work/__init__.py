"""Work contracts: a plan of work on a git repository is a proposal, a contract is a bounded grant of it (DESIGN 10)."""
