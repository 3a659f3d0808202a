"""The broker: the only place with an effect (DESIGN sections 1 and 4). Check, reserve, attempt, dispatch, commit."""
