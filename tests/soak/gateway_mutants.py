"""The seeded bugs of what several gateways share: the lease of the duties, presences, and limits of load."""

from soak.mutant import Mutant, bug

_RENEW = "if holder and holder ~= args.holder and not args.force then\n"
GATEWAYS: tuple[Mutant, ...] = (
    bug("seal-without-fence", "seal", ('"fence") ~= args.fence then', '"fence") == nil then')),
    bug("lease-taken-from-its-holder", "lease", (_RENEW, "if false then\n")),
    bug("lease-never-ends", "lease", ('redis.call("PEXPIRE", lease, text(integer(args.ttl_ms)))', "")),
    bug("fence-of-the-last-holder", "lease", ('"fence") or 0) + 1)', '"fence") or 1))')),
    bug("fence-raised-by-a-renewal", "lease", ("if holder ~= args.holder then\n", "if true then\n")),
    bug("lease-released-by-anybody", "lease", ("if holder == args.holder then\n", "if true then\n")),
    bug("presence-that-has-ended", "presence", ('"(" .. text(now), "+inf"', '"-inf", "+inf"')),
    bug("presences-never-fewer", "presence", ('redis.call("ZREMRANGEBYSCORE", present, "-inf", text(now))', "")),
    bug("presence-after-leaving", "presence", ('redis.call("ZREM", present, args.id)', "")),
    bug("tokens-leased-twice", "share", ("if mine and mine.seq == args.seq then", "if false then")),
    bug("tokens-of-others-not-counted", "share", ("held = held + other.held", "held = held + 0")),
    bug("tokens-of-the-dead-kept", "share", ("if other.at + args.ttl_ms < now then", "if false then")),
    bug("tokens-above-the-limit", "share", ("= math.min(tokens, capacity - held)", "= tokens")),
    bug("tokens-not-deducted", "share", ("record.tokens = record.tokens - leased", "")),
    bug("credit-not-deducted", "share", ("- integer(args.owed)", "")),
    bug("tokens-not-returned", "share", ("+ integer(args.back)", "")),
    bug(
        "tokens-not-divided", "share", ("math.max(1, math.floor(record.tokens / sharing))", "math.floor(record.tokens)")
    ),
)
