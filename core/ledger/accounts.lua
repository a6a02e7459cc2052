-- Reads accounts of a tenant and the tenant's last journal number atomically. The cost is linear in the number of
-- accounts read. The script returns the accounts in args.names first, then those in the lexical range from args.first
-- to args.last, args.limit in all. With args.subjects the range contains only accounts of subjects. `missing` and
-- `unreadable` list every account that does not exist or cannot be decoded. With args.history each state also contains
-- the sums over the account's history.
if not record[1] then
  return answer({ outcome = "unknown-tenant" })
end
local found = args.names
if args.first then
  -- The range may also contain the tenant's own accounts, of which there are at most 4.
  local range = redis.call("ZRANGEBYLEX", base .. "accounts", args.first, args.last, "LIMIT", 0, args.limit + 4)
  for _, name in ipairs(range) do
    if #found < args.limit and (not args.subjects or string.find(name, ":", 1, true)) then
      found[#found + 1] = name
    end
  end
end
local states, missing, unreadable = {}, {}, {}
for _, name in ipairs(found) do
  local readable, a = pcall(read_account, name)
  if not readable then
    unreadable[#unreadable + 1] = name
  elseif not a then
    missing[#missing + 1] = name
  else
    local state = state_of(a)
    state[11] = a.offered and cmsgpack.unpack(a.offered) or {} -- the divisions, also after one was chosen
    if args.history then
      local history = redis.call("HMGET", base .. "account:" .. name, "loss_x", "loss_y", "pure_epsilon")
      state[12] = history[1] and cmsgpack.unpack(history[1])
      state[13] = history[2] and cmsgpack.unpack(history[2])
      state[14] = history[3]
    end
    states[#states + 1] = state
  end
end
return answer({ outcome = "accounts", seq = tonumber(record[2] or 0), accounts = states,
  missing = missing, unreadable = unreadable, last = found[#found] or "" })
