async def shot(ctx, number, prompt):
    try:
        return await ctx.run("image.generate", {"prompt": prompt})
    except CapabilityError as e:
        ctx.log(f"shot {number}: {e.code}")
        return None


async def orchestrate(ctx, args):
    prompts = [f"{args['subject']}, view {n}" for n in range(3)]
    shots = await ctx.parallel([shot(ctx, n, prompts[n]) for n in range(3)])
    return {"subject": args["subject"], "shots": shots}
