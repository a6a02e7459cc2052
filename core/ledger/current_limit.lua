-- Sets or removes the current limit of one of the tenant's own accounts. args.lowered contains the limit of each division
-- of the account, in the order of its divisions, or one limit for an account without divisions. An empty list removes the
-- current limit. Nothing else of the account changes, so the journal has no entry. The tenant's record counts the changes.
if not tenant().mode then
  return answer({ outcome = "unknown-tenant" })
end
local a = read_account(args.unit)
if not a then
  return answer({ outcome = "unknown-account" })
end
for _, limit in ipairs(args.lowered) do
  check_limit(limit, #a.limit)
end
local current = #args.lowered > 0 and cmsgpack.pack({ args.epsilon, args.lowered }) or ""
redis.call("HSET", base .. "account:" .. a.name, "current", current)
redis.call("HSET", KEYS[1], "limit_changes", text((tonumber(redis.call("HGET", KEYS[1], "limit_changes")) or 0) + 1))
return answer({ outcome = "set", account = state_of(read_account(a.name)) })
