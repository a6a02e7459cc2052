-- Adds a batch of journal entries to the series of an aggregate, all or nothing. It is a compare-and-set on the field
-- args.position of the tenant's record, the number of the last entry in the series. All values are absolute, so a repeated
-- or late call is rejected with "moved" and no entry counts twice. args.name is the part of the keys.
-- args.totals: {series: text}. args.points: list of {step, series, first bucket, horizon or 0, {score, member, ...}}.
if tonumber(redis.call("HGET", KEYS[1], args.position) or 0) ~= integer(args.expected) then
  return answer({ outcome = "moved" })
end
if integer(args.folded) > tonumber(redis.call("HGET", KEYS[1], "seq")) then
  error("a fold ends at an entry that exists")
end
integer(args.folded_at_ms)
for _, p in ipairs(args.points) do
  integer(p[3])
  integer(p[4])
  for i = 1, #p[5], 2 do
    integer(p[5][i])
  end
end

redis.call("HSET", KEYS[1], args.position, text(args.folded), args.position .. "_at_ms", text(args.folded_at_ms))
for series, total in pairs(args.totals) do
  redis.call("HSET", base .. args.name, series, total)
end
for _, p in ipairs(args.points) do
  local key = base .. args.name .. ":" .. text(p[1]) .. ":" .. p[2]
  redis.call("ZREMRANGEBYSCORE", key, text(p[3]), "+inf") -- replace the current bucket, which is not complete yet
  redis.call("ZADD", key, unpack(p[5]))
  if p[4] > 0 then
    -- keep the newest bucket before the horizon: reads carry its values into the retained range
    local carried = redis.call("ZREVRANGEBYSCORE", key, text(p[4]), "-inf", "WITHSCORES", "LIMIT", 0, 1)
    if carried[2] then
      redis.call("ZREMRANGEBYSCORE", key, "-inf", "(" .. carried[2])
    end
  end
end
return answer({ outcome = "folded" })
