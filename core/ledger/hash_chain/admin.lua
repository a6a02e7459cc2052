-- Appends an entry to the log of administrative actions. The action on API keys, or on the state of a tenant, is applied
-- in the same step. KEYS[1] is the log, a stream. Both are outside its slot: the ledger runs on one Redis, never on a
-- cluster.
-- Without args.body the script returns the end of the log. With args.body it appends entry args.n if the log still ends
-- with (args.after_n, args.after_mac).
local last = redis.call("XREVRANGE", KEYS[1], "+", "-", "COUNT", 1)[1]
local n, mac = "0", ""
if last then
  n = string.match(last[1], "^%d+")
  for i = 1, #last[2], 2 do
    if last[2][i] == "mac" then
      mac = last[2][i + 1]
    end
  end
end

if not args.body then
  return answer({ outcome = "end", n = n, mac = mac })
end
if n == args.n and mac == args.mac then
  return answer({ outcome = "logged" }) -- a retry of the same attempt, whose reply was lost
end
if n ~= args.after_n or mac ~= args.after_mac then
  return answer({ outcome = "overtaken" })
end

local create, finish, state = args.create, args.finish, args.state
if state then -- args.state.from contains the states in which the change is permitted
  local found = redis.call("HMGET", state.key, "mode", "state")
  if not found[1] then
    return answer({ outcome = "unknown-tenant" })
  end
  if not string.find(state.from, found[2] or "active", 1, true) then
    return answer({ outcome = "tenant-" .. (found[2] or "active") })
  end
end
if create then
  local found = redis.call("HMGET", create.tenant, "mode", "state")
  if not found[1] then
    return answer({ outcome = "unknown-tenant" })
  end
  if found[2] == "closing" or found[2] == "closed" then
    return answer({ outcome = "tenant-closed" })
  end
  local kept = 0
  for _, id in ipairs(redis.call("SMEMBERS", create.list)) do
    if redis.call("EXISTS", "api-key:" .. id) == 1 then
      kept = kept + 1
    else
      redis.call("SREM", create.list, id) -- the record of a key that ended long ago has expired
    end
  end
  if kept >= create.max then
    return answer({ outcome = "too-many-keys" })
  end
end

redis.call("XADD", KEYS[1], args.n .. "-0", "body", args.body, "mac", args.mac)
if create then
  redis.call("SADD", create.list, create.id)
  redis.call("HSET", "api-key:" .. create.id, unpack(create.fields))
  if create.keep_ms then
    redis.call("PEXPIRE", "api-key:" .. create.id, text(create.keep_ms))
  end
end
if state then
  redis.call("HSET", state.key, "state", state.to)
end
if finish then
  redis.call("HSET", "api-key:" .. finish.id, finish.field, text(finish.at_ms))
  redis.call("PEXPIRE", "api-key:" .. finish.id, text(finish.keep_ms))
end
return answer({ outcome = "logged" })
