-- Shared by files.lua and job.lua: the entries of an owner's files in the blob store, and the bytes that they take.
-- An entry is "<bytes> <JSON>". An entry that expires is in the sorted set "files:ends" as "<area>/<name>".
local FILES_BYTES = base .. "files:bytes"
local FILES_ENDS = base .. "files:ends"

local function entry_bytes(entry)
  return entry and tonumber(string.match(entry, "^(%d+) ")) or 0
end

-- Changes the owner's total. It is never below zero: entries of which it does not know count as nothing.
local function count_bytes(change)
  if change ~= 0 then
    local total = tonumber(redis.call("GET", FILES_BYTES) or "0") + change
    redis.call("SET", FILES_BYTES, string.format("%d", math.max(0, total)))
  end
end

-- Whether `change` more bytes fit below `bytes_max`. 0 is no limit.
local function bytes_fit(change, bytes_max)
  return bytes_max == 0 or change <= 0 or tonumber(redis.call("GET", FILES_BYTES) or "0") + change <= bytes_max
end

local function remove_file(area, name)
  local old = redis.call("HGET", base .. "files:" .. area, name)
  if old then
    redis.call("HDEL", base .. "files:" .. area, name)
    count_bytes(-entry_bytes(old))
  end
  redis.call("ZREM", FILES_ENDS, area .. "/" .. name)
  return old
end

-- Removes up to 100 entries whose time has ended. Their blobs are orphans then, and are collected as such.
local function expire_files()
  for _, member in ipairs(redis.call("ZRANGEBYSCORE", FILES_ENDS, "-inf", text(now), "LIMIT", 0, 100)) do
    local area, name = string.match(member, "^([^/]+)/(.+)$")
    remove_file(area, name)
  end
end

-- Returns the entry that this one replaces, or nil.
local function put_file(file)
  local key = base .. "files:" .. file.area
  local old = redis.call("HGET", key, file.name)
  redis.call("HSET", key, file.name, file.entry)
  count_bytes(entry_bytes(file.entry) - entry_bytes(old))
  if file.ends_ms then
    redis.call("ZADD", FILES_ENDS, text(file.ends_ms), file.area .. "/" .. file.name)
  else
    redis.call("ZREM", FILES_ENDS, file.area .. "/" .. file.name)
  end
  return old
end
