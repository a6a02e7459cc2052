-- Some accounts of a tenant and its last journal number at one moment: those of args.names, else the first
-- args.limit after args.after in the order of names. An account that is missing or cannot be read is told in
-- `missing` and `unreadable`, never left out in silence. Cost: linear in the accounts read.
if not redis.call("HGET", KEYS[1], "mode") then
  return answer({ outcome = "unknown-tenant" })
end
local names = args.names
if not names then
  names = redis.call("ZRANGEBYLEX", base .. "accounts", args.after, "+", "LIMIT", 0, args.limit)
end
local states, missing, unreadable = {}, {}, {}
for _, name in ipairs(names) do
  local readable, a = pcall(read_account, name)
  if not readable then
    unreadable[#unreadable + 1] = name
  elseif not a then
    missing[#missing + 1] = name
  else
    states[#states + 1] = state_of(a)
  end
end
return answer({ outcome = "accounts", seq = redis.call("HGET", KEYS[1], "seq") or "0", accounts = states,
  missing = missing, unreadable = unreadable, last = names[#names] or "" })
