-- Adds a batch of journal entries to the series of an aggregate, all or nothing. It is a compare-and-set on the field
-- args.position of the tenant's record, the number of the last entry in the series. All values are absolute, so a repeated
-- or late call is rejected with "moved" and no entry counts twice. args.name is the part of the keys. Older points are
-- packed, because a point of its own takes about 150 bytes in a large sorted set, and one of 60 in a text about 30.
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

local PACK = 60 -- points of a text; a sorted set of at most 2 * PACK points has the compact encoding of Redis

-- Moves the oldest points, which never change again, to texts of PACK points, "first;offset values;offset values", by
-- the first bucket. An offset is the number of steps since the first bucket.
local function pack_points(key, packed, step)
  while redis.call("ZCARD", key) > 2 * PACK do
    local found = redis.call("ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, PACK)
    local parts = { found[2] }
    for i = 1, #found, 2 do
      local values = string.match(found[i], " (.*)$")
      parts[#parts + 1] = text((tonumber(found[i + 1]) - tonumber(found[2])) / step) .. " " .. values
    end
    redis.call("ZADD", packed, found[2], table.concat(parts, ";"))
    redis.call("ZREMRANGEBYSCORE", key, "-inf", found[#found])
  end
end

-- Removes what is older than the newest bucket before the horizon, or than the text that may contain it. Reads carry
-- its values into the retained range. Returns whether there is one.
local function trim_points(key, horizon)
  local carried = redis.call("ZREVRANGEBYSCORE", key, text(horizon), "-inf", "WITHSCORES", "LIMIT", 0, 1)
  if carried[2] then
    redis.call("ZREMRANGEBYSCORE", key, "-inf", "(" .. carried[2])
  end
  return carried[2]
end

redis.call("HSET", KEYS[1], args.position, text(args.folded), args.position .. "_at_ms", text(args.folded_at_ms))
for series, total in pairs(args.totals) do
  redis.call("HSET", base .. args.name, series, total)
end
for _, p in ipairs(args.points) do
  local series = text(p[1]) .. ":" .. p[2]
  local key, packed = base .. args.name .. ":" .. series, base .. args.name .. ":packed:" .. series
  redis.call("ZREMRANGEBYSCORE", key, text(p[3]), "+inf") -- replace the current bucket, which is not complete yet
  redis.call("ZADD", key, unpack(p[5]))
  if p[4] > 0 then
    if trim_points(key, p[4]) then -- every packed point is older
      redis.call("ZREMRANGEBYSCORE", packed, "-inf", "+inf")
    else
      trim_points(packed, p[4])
    end
  end
  pack_points(key, packed, p[1])
end
return answer({ outcome = "folded" })
