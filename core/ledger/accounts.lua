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
  local history = redis.call("HMGET", base .. "account:" .. name, "loss_x", "loss_y", "pure_epsilon")
  local state = state_of(a)
  state[10] = history[1] and cmsgpack.unpack(history[1])
  state[11] = history[2] and cmsgpack.unpack(history[2])
  state[12] = history[3]
  states[i] = state
end
if #states == 0 then
  return answer({ outcome = "unknown-account" })
end
return answer({ outcome = "accounts", seq = tonumber(seq), accounts = states })
