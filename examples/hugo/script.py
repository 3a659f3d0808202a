async def orchestrate(ctx, args):
    draft = await ctx.run("text.generate", {"prompt": args["brief"], "max_tokens": 200})
    page = "---\ntitle: Example\ndate: 2026-02-01\ndraft: true\n---\n" + draft["text"].strip() + "\n"
    await ctx.run("workspace.write", {"path": "content/posts/example-hugo.md", "text": page})
    return {"written": True}
