"""Language models behind one port: whichever `pydantic-ai` knows, at its provider or at a compatible address.

opening   which library, which provider, which key: everything that can be wrong before a first request
pricing   what a call costs, and the most that one may cost
answers   the answer's JSON Schema as models take it, and the answer held against it
faults    what went wrong, as one of the five codes or as an unknown outcome
hosted    the `Model` of `ports` that puts them together
"""
