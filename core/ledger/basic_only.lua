-- Removes every arm except basic composition from accounts under metric adjacency: first from the accounts in
-- args.names, then from the terms on which accounts of subjects of args.unit are opened. The script only lowers
-- limits. Running it again changes nothing.
local function lowered(limit)
  local new, changed = {}, false
  for i, number in ipairs(limit) do
    local other_arm = i == SQUARE or i > NO_RHO
    new[i] = other_arm and -1 or number
    changed = changed or new[i] ~= number
  end
  return new, changed
end

-- A plan under metric adjacency was certified at distance 1. It admits no release beyond those already counted.
local function ended(a)
  local limit = { unpack(a.limit) }
  limit[COUNT] = math.min(a.limit[COUNT], a.committed[COUNT] + a.held[COUNT])
  return limit, limit[COUNT] < a.limit[COUNT]
end

local accounts = {}
for _, name in ipairs(args.names) do
  local a = read_account(name)
  if a and a.adjacency == "metric" then
    local limit, changed
    if a.plan == "" then
      limit, changed = lowered(a.limit)
    else
      limit, changed = ended(a)
    end
    if changed then
      a.limit = limit
      accounts[#accounts + 1] = a
    end
  end
end
local terms = redis.call("HGET", KEYS[1], "subject:" .. args.unit)
if terms then
  terms = cmsgpack.unpack(terms)
  terms[7] = lowered(terms[7])
end

if #accounts > 0 then
  write_limits(accounts, "metric-adjacency")
end
if terms then
  redis.call("HSET", KEYS[1], "subject:" .. args.unit, cmsgpack.pack(terms))
end
return answer({ outcome = "lowered", accounts = #accounts })
