-- Records on which ledger a tenant lives. KEYS[1] is "{@homes}:tenant" on the main ledger; replay-safe.
-- With args.new a tenant that has a home keeps it. A tenant that is in use on the main ledger, from before there were
-- several, lives there. Its record is outside the slot of KEYS[1]: a ledger runs on one Redis, never on a cluster.
local of = base .. "of"
local home = redis.call("HGET", of, args.tenant)
local found = redis.call("HMGET", "{" .. args.tenant .. "}:tenant", "mode", "away", "arriving")
if not home and found[1] and not (found[2] or found[3]) then
  home = args.main
end
if not home or not args.new then
  home = args.ledger
end
if redis.call("HGET", of, args.tenant) ~= home then
  redis.call("HSET", of, args.tenant, home)
  redis.call("SET", base .. "version", text(tonumber(redis.call("GET", base .. "version") or 0) + 1))
end
return answer({ home = home })
