-- Reads keys of a tenant that moves to another ledger. args.keys: list of {key, offset}. The second part of the answer
-- is msgpack of a list of {key, type, ttl, value, offset}: what arrive.lua writes, with a value as a flat list of its parts. `left`
-- is what was not read: a sorted set is read in parts, from `offset`, and a call ends after about args.bytes_max.
-- A key that has expired is left out.
local PART = 1000 -- members of a sorted set
local rows, left, bytes = {}, {}, 0

local function size_of(value)
  if type(value) == "string" then
    return #value
  end
  local sum_of = 0
  for _, part in ipairs(value) do
    sum_of = sum_of + #part
  end
  return sum_of
end

local function swapped(members) -- ZADD takes the score first
  for i = 1, #members, 2 do
    members[i], members[i + 1] = members[i + 1], members[i]
  end
  return members
end

for _, one in ipairs(args.keys) do
  local key, offset = unpack(one)
  if string.sub(key, 1, #base) ~= base then
    error("not a key of the tenant")
  end
  if bytes > args.bytes_max then
    left[#left + 1] = one
  else
    local kind, value = redis.call("TYPE", key).ok, nil
    if kind == "string" then
      value = redis.call("GET", key)
    elseif kind == "hash" then
      value = redis.call("HGETALL", key)
    elseif kind == "set" then
      value = redis.call("SMEMBERS", key)
    elseif kind == "zset" then
      value = swapped(redis.call("ZRANGE", key, text(offset), text(offset + PART - 1), "WITHSCORES"))
      if #value == 2 * PART then
        left[#left + 1] = { key, offset + PART }
      end
    elseif kind ~= "none" then
      error("a type that does not move")
    end
    if value and (kind == "string" or #value > 0) then
      rows[#rows + 1] = { key, kind, redis.call("PTTL", key), value, offset }
      bytes = bytes + size_of(value)
    end
  end
end
local found = answer({ outcome = "read", left = left, rows = #rows, bytes = bytes })
return { found[1], cmsgpack.pack(rows) }
