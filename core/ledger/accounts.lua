-- Reads all accounts of a tenant and its last journal number at one moment. Cost: linear in the accounts.
local seq = redis.call("HGET", KEYS[1], "seq")
if not redis.call("HGET", KEYS[1], "mode") then
  return answer({ outcome = "unknown-tenant" })
end
local states = {}
for i, name in ipairs(redis.call("ZRANGEBYLEX", base .. "accounts", args.first, args.last)) do
  local a = read_account(name)
  if not a then
    error("an indexed account is missing")
  end
  states[i] = state_of(a)
  states[i][10], states[i][11] = a.moments, a.pure_epsilon
end
if #states == 0 then
  return answer({ outcome = "unknown-account" })
end
return answer({ outcome = "accounts", seq = seq, accounts = states })
