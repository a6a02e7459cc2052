-- The presences of gateways. KEYS[1] is the chain of seals, so that everything is in one slot. A presence ends by
-- the clock of Redis. args.action: beat, leave or list. `beat` writes or renews the presence args.id with args.facts,
-- and returns the number of presences. `list` returns rows {id, facts}.
local base_key = string.sub(KEYS[1], 1, -6) -- without "chain"
local present = base_key .. "gateways"

if args.action == "leave" then
  redis.call("ZREM", present, args.id)
  redis.call("PEXPIRE", base_key .. "gateway:" .. args.id, 0) -- deletes it; the ledger's user may not send DEL
  return answer({ outcome = "left" })
end

if args.action == "beat" then
  redis.call("ZREMRANGEBYSCORE", present, "-inf", text(now))
  redis.call("SET", base_key .. "gateway:" .. args.id, args.facts, "PX", text(integer(args.ttl_ms)))
  redis.call("ZADD", present, text(now + args.ttl_ms), args.id)
  return answer({ outcome = "present", number = redis.call("ZCARD", present) })
end

local rows = {}
for i, id in ipairs(redis.call("ZRANGEBYSCORE", present, "(" .. text(now), "+inf")) do
  rows[i] = { id, redis.call("GET", base_key .. "gateway:" .. id) or "" }
end
return answer({ outcome = "listed", gateways = rows })
