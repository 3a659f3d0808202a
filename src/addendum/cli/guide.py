"""guide: how a script is written, as a model is told."""

from __future__ import annotations

from addendum.cli import inputs, opening, options
from addendum.cli.output import Output


def guide(
    grant: options.Grant = None,
    provider: options.Provider = None,
    json: options.Json = False,
) -> int:
    """Print the authoring guide: how a script is written, the rules, and the capabilities that it may call.

    It is the text that a model gets that writes or repairs a script. With --grant it has only what that grant has.
    """
    from addendum import wiring
    from addendum.repair.guide import guide as compose

    settings = opening.settings(provider=provider, grant=grant)
    catalog = wiring.known(settings)
    granted = inputs.grant(settings.grant, catalog).capabilities if settings.grant else catalog
    names = [name for name in catalog if name in granted]
    text, output = compose(catalog[name] for name in names), Output(json)
    output.value({"guide": text, "capabilities": names}) if json else output.raw(text)
    return 0
