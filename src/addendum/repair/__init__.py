"""Repair (DESIGN section 9): a model mends a failed script, or writes a first one, and every guard judges what it says.

    brief → prompt → model → answer → guards → brief with counterexamples … → an accepted candidate, or none

Nothing here executes a candidate. What a model, a provider or a script said is data: it is shown delimited, and it
decides nothing.
"""
