-- The lease of the duties that one gateway does for all of them. KEYS[1] is the chain of seals, a stream, so that
-- seal.lua can compare the fencing number in the same step. The lease ends by the clock of Redis.
-- args.action: take or release. `take` takes the lease, or renews it for its holder; with args.force also from another
-- holder. Every new holder gets a higher fencing number. args.sealed_ms: when the holder last completed a sealing round.
local base_key = string.sub(KEYS[1], 1, -6) -- without "chain"
local lease = base_key .. "duties"
local f = redis.call("HMGET", lease, "holder", "fence", "sealed_ms")
local holder, fence, sealed_ms = f[1], f[2], f[3] or "0"

if args.action == "release" then
  if holder == args.holder then
    redis.call("PEXPIRE", lease, 0) -- deletes it; the ledger's user may not send DEL
  end
  return answer({ outcome = "released" })
end

if holder and holder ~= args.holder and not args.force then
  return answer({ outcome = "elsewhere", holder = holder, fence = fence, sealed_ms = sealed_ms, now_ms = now })
end
if holder ~= args.holder then
  fence = text(tonumber(redis.call("GET", base_key .. "fence") or 0) + 1)
  redis.call("SET", base_key .. "fence", fence)
end
if integer(args.sealed_ms) > tonumber(sealed_ms) then
  sealed_ms = text(args.sealed_ms)
end
redis.call("HSET", lease, "holder", args.holder, "fence", fence, "sealed_ms", sealed_ms)
redis.call("PEXPIRE", lease, text(integer(args.ttl_ms)))
return answer({ outcome = "held", holder = args.holder, fence = fence, sealed_ms = sealed_ms, now_ms = now })
