-- The vault of a tenant: sealed entries, each with an expiry. KEYS[1] is "{tenant}:tenant" as in every script.
--
-- "{tenant}:vault"           a sorted set without scores, in the order of expiry: "EXPIRY-ID-BYTES"
-- "{tenant}:vault:bytes"     the sum of the bytes of all entries in that set
-- "{tenant}:vault:entry:ID"  one entry: its expiry, and the sealed content (ARGV[2] of "put"). It expires by itself
--
-- args.action: put, delete, clear, count or page. Repeating an action changes nothing more. Each call first removes up
-- to BATCH expired entries from the set; `more` says that some may be left.
local BATCH = 1000
local index, total_key = base .. "vault", base .. "vault:bytes"

local function entry_key(id)
  return base .. "vault:entry:" .. id
end

-- 13 digits, so that the order of texts is the order of times
local function time_text(at_ms)
  return string.format("%013d", integer(at_ms))
end

local total_before = tonumber(redis.call("GET", total_key) or 0)
local total = total_before

local function remove(member)
  local id, bytes = string.match(member, "^%d+%-(%x+)%-(%d+)$")
  redis.call("ZREM", index, member)
  redis.call("PEXPIRE", entry_key(id), 0) -- deletes it
  total = total - tonumber(bytes)
end

local function remove_first(before)
  local found = redis.call("ZRANGEBYLEX", index, "-", before, "LIMIT", 0, BATCH)
  for _, member in ipairs(found) do
    remove(member)
  end
  return #found
end

local function find(id)
  local entry = redis.call("GET", entry_key(id))
  return entry and string.sub(entry, 1, 13) .. "-" .. id .. "-" .. text(#entry) or nil
end

local more = remove_first("(" .. time_text(now + 1)) == BATCH
local outcome, found = "done", {}

if args.action == "put" then
  local value = time_text(args.expires_ms) .. ARGV[2]
  local member = time_text(args.expires_ms) .. "-" .. args.id .. "-" .. text(#value)
  local old = find(args.id)
  local kept = old and redis.call("GET", entry_key(args.id))
  local old_bytes = old and tonumber(string.match(old, "%d+$")) or 0
  if has_ended() then
    outcome = "tenant-closed"
  elseif args.only_new and old and kept ~= value then
    outcome = "exists"
  elseif args.only_old and not old then
    outcome = "gone"
  elseif not old and redis.call("ZCARD", index) >= args.entries_max then
    outcome = "vault_entries_max"
  elseif total - old_bytes + #value > args.bytes_max then
    outcome = "vault_bytes_max"
  else
    if old then
      remove(old)
    end
    redis.call("SET", entry_key(args.id), value, "PXAT", text(args.expires_ms))
    redis.call("ZADD", index, 0, member)
    total = total + #value
  end
elseif args.action == "delete" then
  local old = find(args.id)
  if old then
    remove(old)
    found = { old }
  end
elseif args.action == "clear" then
  more = remove_first("+") == BATCH
elseif args.action == "page" then
  local after = args.cursor == "" and "-" or "(" .. args.cursor
  found = redis.call("ZRANGEBYLEX", index, after, "+", "LIMIT", 0, args.limit)
end

if total ~= total_before then
  redis.call("SET", total_key, text(total))
end
local entries = redis.call("ZCARD", index)
local first = redis.call("ZRANGEBYLEX", index, "-", "+", "LIMIT", 0, 1)[1]
local last = redis.call("ZRANGEBYLEX", index, "-", "+", "LIMIT", math.max(0, entries - 1), 1)[1]
return answer({
  outcome = outcome, more = more, found = found, entries = entries, bytes = total, first = first or "", last = last or "",
})
