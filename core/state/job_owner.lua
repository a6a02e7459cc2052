-- Lists an owner among those that may have an unfinished job. KEYS[1] is "{@jobs}:tenant"; replay-safe.
redis.call("ZADD", base .. "owners", text(now), args.owner)
return answer({ outcome = "listed" })
