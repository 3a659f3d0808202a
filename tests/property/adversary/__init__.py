"""An adversary: generated programs, edits of them, schedules, failures and crashes, and an oracle that knows what each
call was for.

`programs` writes scripts from a model in which every call has a *role*; `edits` changes the model as people and models
change scripts; `inprocess` runs annotated text in this process; `world` is a run with everything around it under the
test's control; `oracle` compares what happened with the roles.
"""
