-- Reads accounts of a tenant and its last journal number at one moment. Cost: linear in the accounts that it reads.
-- Without args.limit: those whose names are in the lexical range from args.first to args.last. With it, a page: the
-- tenant's own accounts in args.own, then its subjects' in the range, args.limit in all.
local seq = redis.call("HGET", KEYS[1], "seq")
if not redis.call("HGET", KEYS[1], "mode") then
  return answer({ outcome = "unknown-tenant" })
end
local found
if args.limit then
  found = args.own
  -- between subjects' names stand the tenant's own, one a unit, which are skipped
  local most = text(args.limit + 4)
  for _, name in ipairs(redis.call("ZRANGEBYLEX", base .. "accounts", args.first, args.last, "LIMIT", "0", most)) do
    if #found < args.limit and string.find(name, ":", 1, true) then
      found[#found + 1] = name
    end
  end
else
  found = redis.call("ZRANGEBYLEX", base .. "accounts", args.first, args.last)
end
local states = {}
for i, name in ipairs(found) do
  local a = read_account(name)
  if not a then
    error("an indexed account is missing")
  end
  local history = redis.call("HMGET", base .. "account:" .. name, "loss_x", "loss_y", "pure_epsilon")
  local state = state_of(a)
  state[10] = history[1] and cmsgpack.unpack(history[1])
  state[11] = history[2] and cmsgpack.unpack(history[2])
  state[12] = history[3]
  states[i] = state
end
if #states == 0 and not args.limit then
  return answer({ outcome = "unknown-account" })
end
return answer({ outcome = "accounts", seq = tonumber(seq), accounts = states })
