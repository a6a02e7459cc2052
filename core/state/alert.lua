-- Rules of alerts, their states, the alerts that fired, and the outbox of deliveries. KEYS[1] is "{@alerts}:tenant",
-- which does not exist itself: everything of alerts is in one slot, so a rule's state, its alerts and their deliveries
-- change in one step. An owner is a tenant or the operator.
-- args.action: lease, release, put, delete, forget, change, take or settle. `change` and `take` write only for the
-- holder of the lease, so one of several gateways evaluates and delivers.
local outbox = base .. "outbox:" .. (args.owner or "")

local function is_holder()
  return redis.call("GET", base .. "lease") == args.holder
end

local function remove(key)
  redis.call("PEXPIRE", key, "0") -- the ledger's user of Redis may not call DEL
end

-- Writes when the owner's next delivery is due.
local function schedule()
  local first = redis.call("ZRANGEBYSCORE", outbox, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1)
  if first[2] then
    redis.call("ZADD", base .. "due", first[2], args.owner)
  else
    redis.call("ZREM", base .. "due", args.owner)
  end
end

-- Gives the list of rules a new version, under which gateways read the owner's rules again.
local function rules_changed()
  local version = text((redis.call("GET", base .. "version") or 0) + 1)
  redis.call("SET", base .. "version", version)
  redis.call("ZADD", base .. "owners", version, args.owner)
end

if args.action == "lease" then
  local holder = redis.call("GET", base .. "lease")
  if holder and holder ~= args.holder then
    return answer({ outcome = "elsewhere" })
  end
  redis.call("SET", base .. "lease", args.holder, "PX", text(args.ttl_ms))
  return answer({ outcome = "held" })
end

if args.action == "release" then
  if is_holder() then
    remove(base .. "lease")
  end
  return answer({ outcome = "released" })
end

local rules, rule = base .. "rules:" .. args.owner, base .. "rule:" .. args.owner .. ":" .. (args.rule or "")

if args.action == "put" then
  local is_new = redis.call("EXISTS", rule) == 0
  if is_new and #redis.call("SMEMBERS", rules) >= integer(args.rules_max) then
    return answer({ outcome = "too-many" })
  end
  redis.call("SADD", rules, args.rule)
  redis.call("SET", rule, args.sealed)
  rules_changed()
  return answer({ outcome = is_new and "new" or "replaced" })
end

if args.action == "delete" then
  if redis.call("EXISTS", rule) == 0 then
    return answer({ outcome = "unknown" })
  end
  redis.call("SREM", rules, args.rule)
  remove(rule)
  remove(base .. "last:" .. args.owner .. ":" .. args.rule)
  rules_changed()
  return answer({ outcome = "deleted" })
end

if args.action == "forget" then
  local more = false
  for _, place in ipairs({ "open:", "over:" }) do
    local key = base .. place .. args.owner
    for _, member in ipairs(redis.call("ZRANGEBYLEX", key, "-", "+", "LIMIT", 0, 1000)) do
      redis.call("ZREM", key, member)
      remove(base .. "alert:" .. args.owner .. ":" .. member)
    end
    more = more or redis.call("ZCARD", key) > 0
  end
  return answer({ outcome = "forgotten", more = more })
end

if args.action == "change" then
  -- args.alerts: list of {member, record, "open" or "over"}. args.deliveries: list of {id, sealed}.
  -- args.closing: the rule was deleted, and its open alerts end.
  if not args.closing and not is_holder() then
    return answer({ outcome = "lost" })
  end
  if (redis.call("EXISTS", rule) == 0) ~= (args.closing or false) then
    return answer({ outcome = "no-rule" })
  end
  local state_key = base .. "state:" .. args.owner .. ":" .. args.rule .. ":" .. args.tenant
  local states = base .. "states:" .. args.owner .. ":" .. args.rule
  local state = redis.call("GET", state_key) or ""
  if state == args.state then
    return answer({ outcome = "changed", dropped = 0 }) -- a retry of the same call, whose reply was lost
  end
  if state ~= args.expected then
    return answer({ outcome = "moved" })
  end
  if args.state == "" then
    remove(state_key)
    redis.call("SREM", states, args.tenant)
  else
    redis.call("SET", state_key, args.state)
    redis.call("SADD", states, args.tenant)
  end
  local open, over = base .. "open:" .. args.owner, base .. "over:" .. args.owner
  for _, alert in ipairs(args.alerts) do
    local member, record, place = unpack(alert)
    redis.call("SET", base .. "alert:" .. args.owner .. ":" .. member, record)
    redis.call("ZREM", place == "open" and over or open, member)
    redis.call("ZADD", place == "open" and open or over, 0, member)
  end
  for _, member in ipairs(redis.call("ZRANGEBYLEX", over, "-", "+", "LIMIT", text(args.kept_max), 1000)) do
    redis.call("ZREM", over, member)
    remove(base .. "alert:" .. args.owner .. ":" .. member)
  end
  local dropped = 0
  for _, delivery in ipairs(args.deliveries) do
    if redis.call("ZCARD", outbox) < integer(args.outbox_max) then
      redis.call("HSET", base .. "delivery:" .. args.owner .. ":" .. delivery[1], "sealed", delivery[2], "attempts", "0")
      redis.call("ZADD", outbox, text(now), delivery[1])
    else
      dropped = dropped + 1
    end
  end
  schedule()
  return answer({ outcome = "changed", dropped = dropped })
end

if args.action == "take" then
  -- A delivery that is taken becomes due again after claim_ms: one that a crash interrupts is repeated.
  if not is_holder() then
    return answer({ outcome = "lost" })
  end
  local taken = {}
  for _, id in ipairs(redis.call("ZRANGEBYSCORE", outbox, "-inf", text(now), "LIMIT", 0, text(args.limit))) do
    local key = base .. "delivery:" .. args.owner .. ":" .. id
    local found = redis.call("HMGET", key, "attempts", "sealed")
    local attempts = (found[1] or 0) + 1
    redis.call("HSET", key, "attempts", text(attempts))
    redis.call("ZADD", outbox, text(now + integer(args.claim_ms)), id)
    taken[#taken + 1] = { id, attempts, found[2] or "" }
  end
  schedule()
  return answer({ outcome = "taken", deliveries = taken })
end

if args.action == "settle" then
  -- With args.wait_ms the delivery is tried again after that time; else it has ended.
  local key = base .. "delivery:" .. args.owner .. ":" .. args.delivery
  if redis.call("EXISTS", key) == 0 then
    return answer({ outcome = "settled" })
  end
  if args.wait_ms then
    redis.call("ZADD", outbox, text(now + integer(args.wait_ms)), args.delivery)
  else
    redis.call("ZREM", outbox, args.delivery)
    remove(key)
  end
  schedule()
  if redis.call("EXISTS", rule) == 1 then
    redis.call("SET", base .. "last:" .. args.owner .. ":" .. args.rule, text(now) .. " " .. args.result)
  end
  return answer({ outcome = "settled" })
end
error("unknown action")
