-- Updates the ranks of subjects' accounts, all or nothing. It is a compare-and-set on the tenant's `ranked`, the number
-- of the last entry that the ranks contain. A late call is rejected with "moved", so an older state never overwrites a
-- newer one. args.rows: list of {unit, subject hash, rank}. Ranks have one length, so they sort as texts.
if tonumber(redis.call("HGET", KEYS[1], "ranked") or 0) ~= integer(args.expected) then
  return answer({ outcome = "moved" })
end
if integer(args.ranked) > tonumber(redis.call("HGET", KEYS[1], "seq")) then
  error("a ranking ends at an entry that exists")
end

redis.call("HSET", KEYS[1], "ranked", text(args.ranked))
for _, row in ipairs(args.rows) do
  local unit, subject, rank = unpack(row)
  local key = base .. "account:" .. account_name(unit, subject)
  local found = redis.call("HMGET", key, "unit", "rank")
  if found[1] and found[2] ~= rank then
    if found[2] then
      redis.call("ZREM", base .. "ranks:" .. unit, found[2] .. ":" .. subject)
    end
    redis.call("ZADD", base .. "ranks:" .. unit, 0, rank .. ":" .. subject)
    redis.call("HSET", key, "rank", rank)
  end
end
return answer({ outcome = "ranked" })
