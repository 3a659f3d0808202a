"""The demonstration's two scripts: what a model wrote first, and its rewrite after one image failed."""

from __future__ import annotations

from typing import Final

ARGS: Final = {"brief": "a lighthouse through the seasons"}
FAILING: Final = ("image.generate", 4)
"""The capability and the dispatch that the provider fails."""

FIRST: Final = """\
async def orchestrate(ctx, args):
    board = await ctx.run("storyboard.plan", {"brief": args["brief"], "shots": 4})

    async def draw(shot):
        image = await ctx.run("image.generate", {"prompt": shot["prompt"]})
        return image["url"]

    return await ctx.parallel([draw(shot) for shot in board["shots"][:4]])
"""

SECOND: Final = """\
async def picture(ctx, prompt):
    image = await ctx.run("image.generate", {"prompt": prompt})
    return image["url"]


async def orchestrate(ctx, args):
    board = await ctx.run("storyboard.plan", {"brief": args["brief"], "shots": 4})
    shots = board["shots"][:4]
    urls = await ctx.parallel([picture(ctx, shot["prompt"]) for shot in shots])
    return [{"title": shot["title"], "url": url} for shot, url in zip(shots, urls)]
"""
