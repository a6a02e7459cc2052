-- Reads one page of a tenant's accounts: its own ones in args.own, then its subjects' from args.first on, by name;
-- args.limit in all. Cost: linear in the page.
if not redis.call("HGET", KEYS[1], "mode") then
  return answer({ outcome = "unknown-tenant" })
end
local limit = integer(args.limit)
local page = {}
for i, name in ipairs(args.own) do
  page[i] = name
end
-- between subjects' names stand the tenant's own, one a unit, which are skipped
for _, name in ipairs(redis.call("ZRANGEBYLEX", base .. "accounts", args.first, "+", "LIMIT", 0, text(limit + 4))) do
  if #page < limit and string.find(name, ":", 1, true) then
    page[#page + 1] = name
  end
end
local states = {}
for i, name in ipairs(page) do
  local a = read_account(name)
  if not a then
    error("an indexed account is missing")
  end
  states[i] = state_of(a)
end
return answer({ outcome = "accounts", accounts = states })
