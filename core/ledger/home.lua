-- On which ledger a tenant lives. KEYS[1] is "{@homes}:tenant" on the main ledger; replay-safe.
-- args.action: find, place or move. `find` returns the recorded home, or args.main for a tenant without one that is in use
-- on the main ledger, or "" for one that is not. `place` records args.ledger for a tenant without a home; `move` for any.
-- The tenant's record is outside the slot of KEYS[1]: a ledger runs on one Redis, never on a cluster.
local of = base .. "of"
local home = redis.call("HGET", of, args.tenant)
local found = redis.call("HMGET", "{" .. args.tenant .. "}:tenant", "mode", "away", "arriving")
local in_use = found[1] and not (found[2] or found[3])
local current = home or (in_use and args.main) or ""
if args.action == "find" or (args.action == "place" and home) then
  return answer({ home = current })
end
if args.action == "move" or current == "" then
  current = args.ledger
end
if home ~= current then
  redis.call("HSET", of, args.tenant, current)
  if home or args.action == "move" then -- a new tenant needs no other version: a map that lacks it looks for it
    redis.call("SET", base .. "version", text(tonumber(redis.call("GET", base .. "version") or 0) + 1))
  end
end
return answer({ home = current })
