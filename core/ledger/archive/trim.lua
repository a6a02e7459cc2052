-- Removes archived entries: the seals before number args.keep if KEYS[1] is the chain of seals, else entries of a journal
-- up to args.up_to. Entries that the series, the spending or the ranks do not contain yet stay. The caller has verified
-- that the archive has what is removed. This is the only script that removes entries; deploy/users.acl permits XTRIM to
-- another user than the gateway's.
local function remove_before(stream, number)
  local first = redis.call("XRANGE", stream, "-", "+", "COUNT", 1)[1]
  if not first or tonumber(string.match(first[1], "^%d+")) >= number then
    return
  end
  local id = text(number) .. "-0"
  if #redis.call("XRANGE", stream, id, id) == 0 then
    error("the first entry that stays must exist")
  end
  redis.call("XTRIM", stream, "MINID", id)
end

if args.keep then
  remove_before(KEYS[1], args.keep)
  return answer({ outcome = "trimmed", up_to = args.keep - 1 })
end

local up_to = integer(args.up_to)
local f = redis.call("HMGET", KEYS[1], "mode", "folded", "spending_folded", "ranked")
for i = 2, f[1] == "subject" and 4 or 3 do
  up_to = math.min(up_to, tonumber(f[i] or 0))
end
if up_to > 0 then
  remove_before(base .. "journal", up_to + 1)
end
return answer({ outcome = "trimmed", up_to = up_to })
