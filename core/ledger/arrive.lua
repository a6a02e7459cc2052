-- The ledger that a tenant moves to (core/ledger/move). args.action: begin, clear, entries, write, record, activate or
-- withdraw. Every action is replay-safe. args.token names one run of the move, and args.source the other ledger. The field
-- `arriving` is "TOKEN:SOURCE" from `begin` to `activate`, and only the run whose token is there changes anything.
-- A tenant that comes back has a record with `away`, its accounts, and a journal that is the beginning of the one that
-- arrives. That journal stays.
local FENCED = "999999" -- a schema that scripts of earlier versions refuse, which do not read `arriving`
local mine = args.token .. ":" .. args.source
local away, arriving = record[8], record[9]

local function last_entry()
  local last = redis.call("XREVRANGE", base .. "journal", "+", "-", "COUNT", 1)[1]
  return last and tonumber(string.match(last[1], "^%d+")) or 0
end

local function state(outcome)
  return answer({ outcome = outcome, returns = away and true or false, seq = tonumber(record[2] or 0), last = last_entry() })
end

local function is_from_elsewhere(field)
  return string.match(field, ":(.+)$") ~= args.source
end

-- The name of a key that may be written or removed. What always lives on the main ledger, and what the other actions write,
-- may not.
local function check_key(key)
  local name = string.sub(key, 1, #base) == base and string.sub(key, #base + 1)
  if not name or name == "tenant" or name == "journal" or name == "api-keys" or string.sub(name, 1, 6) == "limit:" then
    error("not a key that moves")
  end
end

if args.action == "begin" then
  if arriving then
    if is_from_elsewhere(arriving) then
      return answer({ outcome = "other-source" })
    end
  elseif record[1] and not away then
    return answer({ outcome = "exists" })
  end
  if args.only_moving and not arriving then
    return state("absent")
  end
  redis.call("HSET", KEYS[1], "arriving", mine)
  return state("begun")
end

if args.action == "activate" and not arriving and redis.call("HGET", KEYS[1], "arrived") == args.token then
  return state("active") -- a retry of the same call, whose reply was lost
end
if args.action == "withdraw" and not arriving and (away or not record[1]) then
  return answer({ outcome = "withdrawn" })
end
if arriving ~= mine then
  return answer({ outcome = "lost" })
end

if args.action == "clear" then
  for _, key in ipairs(args.keys) do
    check_key(key)
  end
  for _, key in ipairs(args.keys) do
    redis.call("UNLINK", key)
  end
  return answer({ outcome = "cleared" })
end

if args.action == "entries" then -- ARGV[2]: msgpack of a list of {number, {field, value, ...}}
  local last = last_entry()
  for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
    if entry[1] > last then -- a retry finds what it has written
      if entry[1] ~= last + 1 then
        error("an entry is missing")
      end
      last = entry[1]
      redis.call("XADD", base .. "journal", text(last) .. "-0", unpack(entry[2]))
    end
  end
  return answer({ outcome = "written", last = last })
end

if args.action == "write" then -- ARGV[2]: what moved_keys.lua returned: a list of {key, type, ttl, value}
  local rows, of_type = cmsgpack.unpack(ARGV[2]), { hash = "HSET", zset = "ZADD", set = "SADD" }
  for _, row in ipairs(rows) do
    check_key(row[1])
    if row[2] ~= "string" and not of_type[row[2]] then
      error("a type that does not move")
    end
  end
  for _, row in ipairs(rows) do
    local key, kind, ttl, value = unpack(row)
    if kind == "string" then
      redis.call("SET", key, value)
    else
      for i = 1, #value, 1000 do
        redis.call(of_type[kind], key, unpack(value, i, math.min(i + 999, #value)))
      end
    end
    if ttl >= 0 then
      redis.call("PEXPIRE", key, text(math.max(ttl, 1)))
    end
  end
  return answer({ outcome = "written" })
end

if args.action == "record" then -- ARGV[2]: msgpack of a list {field, value, ...}
  redis.call("HSET", KEYS[1], unpack(cmsgpack.unpack(ARGV[2])))
  redis.call("HSET", KEYS[1], "schema", FENCED)
  return answer({ outcome = "written" })
end

if args.action == "activate" then
  if not record[1] or last_entry() ~= tenant().seq then
    error("the record and the journal differ")
  end
  journal("arrive", "", "", args.source, "[]", "", "", "", 0, "arrived", args.token)
  local before = redis.call("HGET", KEYS[1], "schema_before")
  redis.call("HDEL", KEYS[1], "arriving", "away", "schema", "schema_before")
  if before and before ~= "" then
    redis.call("HSET", KEYS[1], "schema", before)
  end
  return state("active")
end

if args.action == "withdraw" then -- after all other keys were removed, or, of a tenant that came back, are complete
  if away then
    redis.call("HDEL", KEYS[1], "arriving")
  else
    redis.call("UNLINK", base .. "journal")
    redis.call("UNLINK", KEYS[1])
  end
  return answer({ outcome = "withdrawn" })
end
error("unknown action")
