-- Claims the idempotency key, checks every debit and holds all of them, or holds nothing.
-- With `estimate` it stops before the first write and tells what it would have decided.
-- args.debits: list of {unit, subject hash or "", epsilon, delta}.
local mode = redis.call("HGET", KEYS[1], "mode")
if not mode then
  return answer({ outcome = "unknown-tenant" })
end

local release_key = base .. "release:" .. args.release
local claim_key = base .. "claim:" .. args.scope
if not args.estimate then
  -- the same attempt again: its reply was lost, or it arrives after its hold has ended
  local own = redis.call("HMGET", release_key, "state", "reserved")
  if own[1] == "held" then
    return { own[2] }
  end
  if own[1] then
    return answer({ outcome = "not-open", state = own[1] })
  end

  if args.scope ~= "" then
    local claim = redis.call("HMGET", claim_key, "fingerprint", "release", "denied")
    if claim[1] then
      if claim[1] ~= args.fingerprint then
        return answer({ outcome = "conflict" })
      end
      if claim[3] then
        return { claim[3] } -- a denied key stays denied, with the same numbers
      end
      local state = redis.call("HGET", base .. "release:" .. claim[2], "state")
      if state == "held" then
        return answer({ outcome = "in-flight" })
      end
      if state == "committed" then
        local response = redis.call("GET", base .. "response:" .. claim[2])
        if response then
          return { cjson.encode({ outcome = "replay", release = claim[2] }), response }
        end
      end
      if state ~= "cancelled" then
        return answer({ outcome = "gone" })
      end
      -- cancelled: no noise was drawn under this key, so a new release may claim it
    end
  end
end

-- One debit an account, in the order given; after them, in subject mode, the tenant's quota over all subjects.
local debits, by_name = {}, {}
local function debit(unit, subject, epsilon, delta)
  local name = account_name(unit, subject)
  local d = by_name[name]
  if not d then
    d = { name = name, unit = unit, subject = subject, epsilon = 0, delta = 0 }
    by_name[name] = d
    debits[#debits + 1] = d
  end
  d.epsilon = add(d.epsilon, epsilon)
  d.delta = add(d.delta, delta)
end
for _, d in ipairs(args.debits) do
  if mode == "tenant" and d[2] ~= "" then
    return answer({ outcome = "subject-not-allowed" })
  end
  if mode == "subject" and d[2] == "" then
    return answer({ outcome = "subject-required" })
  end
  debit(d[1], d[2], integer(d[3]), integer(d[4]))
end
if mode == "subject" then
  for _, d in ipairs(args.debits) do
    debit(d[1], "", integer(d[3]), integer(d[4]))
  end
end
if #debits == 0 then
  error("a release debits at least one account")
end

local accounts, opened, opened_amounts, amounts, denied = {}, {}, {}, {}, nil
for i, d in ipairs(debits) do
  local a = read_account(d.name)
  if not a and d.subject ~= "" then
    -- the first use of a subject: at the tenant's subject limit; a unit without one stays unknown
    local quota = read_account(d.unit)
    local limit = redis.call("HMGET", KEYS[1], "subject_epsilon:" .. d.unit, "subject_delta:" .. d.unit)
    if quota and limit[1] and limit[2] then
      a = {
        name = d.name, unit = d.unit, adjacency = quota.adjacency, subject = d.subject,
        limit_epsilon = integer(limit[1]), limit_delta = integer(limit[2]),
        committed_epsilon = 0, committed_delta = 0, held_epsilon = 0, held_delta = 0,
      }
      opened[#opened + 1] = a
      opened_amounts[#opened_amounts + 1] = { d.unit, d.subject, limit[1], limit[2] }
    end
  end
  if not a then
    return answer({ outcome = "unknown-account" })
  end
  accounts[i] = a
  amounts[i] = { d.unit, d.subject, text(d.epsilon), text(d.delta) }
  local remaining_epsilon = integer(a.limit_epsilon - a.committed_epsilon - a.held_epsilon)
  local remaining_delta = integer(a.limit_delta - a.committed_delta - a.held_delta)
  if not denied and (d.epsilon > remaining_epsilon or d.delta > remaining_delta) then
    denied = {
      outcome = "denied", unit = d.unit, subject = d.subject,
      requested = { text(d.epsilon), text(d.delta) },
      remaining = { text(remaining_epsilon), text(remaining_delta) },
    }
  end
end

if args.estimate then
  local states = {}
  for i, a in ipairs(accounts) do
    states[i] = state_of(a)
  end
  return answer({ outcome = "estimate", accounts = states, amounts = amounts })
end

local tombstone_ttl = text(integer(args.tombstone_ttl_ms))
if denied then
  local encoded = cjson.encode(denied)
  if args.scope ~= "" then
    redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "denied", encoded)
    redis.call("PEXPIRE", claim_key, tombstone_ttl)
  end
  return { encoded }
end

local deadline = text(add(integer(now), integer(args.hold_ttl_ms)))
local states = {}
for i, a in ipairs(accounts) do
  -- what the response shows: this release as committed, the other open holds as reserved
  local d = debits[i]
  d.held_epsilon = text(add(a.held_epsilon, d.epsilon))
  d.held_delta = text(add(a.held_delta, d.delta))
  a.committed_epsilon = add(a.committed_epsilon, d.epsilon)
  a.committed_delta = add(a.committed_delta, d.delta)
  states[i] = state_of(a)
end
local reserved = cjson.encode({ outcome = "reserved", release = args.release, accounts = states })

if #opened > 0 then
  journal("open", "", "", "", opened_amounts)
  for _, a in ipairs(opened) do
    write_new_account(a)
  end
end
journal("reserve", args.release, args.mechanism, "", amounts)
for _, d in ipairs(debits) do
  redis.call("HSET", base .. "account:" .. d.name, "held_epsilon", d.held_epsilon, "held_delta", d.held_delta)
end
redis.call("HSET", release_key, "state", "held", "scope", args.scope, "mechanism", args.mechanism,
  "debits", cjson.encode(amounts), "reserved", reserved, "created_ms", now)
redis.call("ZADD", base .. "overdue", deadline, args.release)
if args.scope ~= "" then
  redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "release", args.release)
  redis.call("PERSIST", claim_key)
end
return { reserved }
