-- Writes what a batch of journal entries adds to the series, or nothing: a compare-and-set on the tenant's `folded`,
-- the number of the last entry in the series. Values are absolute, so a call that is repeated, or comes late, is
-- refused as "moved" and counts nothing twice.
-- args.totals: {series: text}. args.points: list of {step, series, first bucket, horizon or 0, {score, member, ...}}.
if tonumber(redis.call("HGET", KEYS[1], "folded") or 0) ~= integer(args.expected) then
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

redis.call("HSET", KEYS[1], "folded", text(args.folded), "folded_at_ms", text(args.folded_at_ms))
for series, total in pairs(args.totals) do
  redis.call("HSET", base .. "series", series, total)
end
for _, p in ipairs(args.points) do
  local key = base .. "series:" .. text(p[1]) .. ":" .. p[2]
  redis.call("ZREMRANGEBYSCORE", key, text(p[3]), "+inf") -- the bucket that is still being filled
  redis.call("ZADD", key, unpack(p[5]))
  if p[4] > 0 then
    -- the newest bucket before the horizon stays: its values are carried into what is kept
    local carried = redis.call("ZREVRANGEBYSCORE", key, text(p[4]), "-inf", "WITHSCORES", "LIMIT", 0, 1)
    if carried[2] then
      redis.call("ZREMRANGEBYSCORE", key, "-inf", "(" .. carried[2])
    end
  end
end
return answer({ outcome = "folded" })
