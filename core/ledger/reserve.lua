-- Claims the idempotency key, checks every debit and holds all of them, or holds nothing.
-- With `estimate` it stops before the first write and tells what it would have decided.
--
-- args.debits: one row an account, {unit, subject hash or "", plan, counts, rho, moments, pure epsilon}: the first
-- seven positions of the account's vector, then the Renyi costs at args.orders.
-- args.subjects: whether "all", "some" or "none" of the charges name a subject; where they do, the rows without a
-- subject are the sums over all of them.
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

if mode == "tenant" and args.subjects ~= "none" then
  return answer({ outcome = "subject-not-allowed" })
end
if mode == "subject" and args.subjects ~= "all" then
  return answer({ outcome = "subject-required" })
end
if #args.debits == 0 then
  error("a release debits at least one account")
end

-- The debit as a vector of the account: the Renyi costs at the account's own orders.
local at = {}
for i, order in ipairs(args.orders) do
  at[order] = i
end
local function cost_to(a, counts, rho)
  local cost = vector(counts)
  local priced = vector(rho)
  if #cost ~= NO_RHO or #priced ~= #args.orders then
    error("a debit with missing positions")
  end
  for _, order in ipairs(words(a.orders)) do
    local nano = priced[at[order]]
    if not nano then
      nano = 0
      cost[NO_RHO] = cost[COUNT]
    end
    cost[#cost + 1] = nano
  end
  return cost
end

-- Whether the account admits what it would count: a plan by its number of releases, a filter by any of its arms.
-- The limit of an arm that is not offered is -1, which nothing fits. A sum above 2^53 fits nothing either.
local function admits(a, total)
  for i = 1, #total do
    if total[i] > LARGEST then
      return false
    end
  end
  local limit = limits(a.limit)
  if a.plan ~= "" then
    return total[COUNT] <= limit[COUNT]
  end
  if total[NO_EPSILON] == 0 and total[EPSILON] <= limit[EPSILON] and total[DELTA] <= limit[DELTA] then
    return true
  end
  if total[NO_SQUARE] == 0 and total[SQUARE] <= limit[SQUARE] then
    return true
  end
  if total[NO_RHO] == 0 then
    for i = NO_RHO + 1, #limit do
      if total[i] <= limit[i] then
        return true
      end
    end
  end
  return false
end

local accounts, opened, opened_amounts, amounts, debits, fits, seen, refused = {}, {}, {}, {}, {}, {}, {}, nil
for i, debit in ipairs(args.debits) do
  local unit, subject, plan, counts, rho, moments, pure_epsilon = unpack(debit)
  local name = account_name(unit, subject)
  if seen[name] then
    error("two debits of one account")
  end
  seen[name] = true
  local a = read_account(name)
  if not a and subject ~= "" then
    -- the first use of a subject: on the terms that the tenant was opened with; else it stays unknown
    local terms = redis.call("HGET", KEYS[1], "subject:" .. unit)
    if terms then
      terms = cjson.decode(terms)
      terms[2] = subject
      a = new_account(terms)
      opened[#opened + 1] = a
      opened_amounts[#opened_amounts + 1] = opening(a)
    end
  end
  if not a then
    return answer({ outcome = "unknown-account" })
  end

  local cost = cost_to(a, counts, rho)
  local committed, held = vector(a.committed), vector(a.held)
  local total = {}
  for j = 1, #cost do
    total[j] = committed[j] + held[j] + cost[j]
  end
  fits[i] = admits(a, total)
  if a.plan ~= "" and a.plan ~= plan then
    refused = { outcome = "plan-mismatch", account = state_of(a) }
  elseif not fits[i] and not refused then
    refused = { outcome = "denied", account = state_of(a), requested = packed(cost) }
  end
  accounts[i] = a
  amounts[i] = { unit, subject, packed(cost) }
  debits[i] = { unit, subject, amounts[i][3], moments, pure_epsilon }
  if fits[i] then
    -- what the response shows: this release as committed, the other open holds as reserved
    a.next_held = packed(sum(held, cost, 1))
    a.next_committed = packed(sum(committed, cost, 1))
  end
end

if args.estimate then
  if refused and refused.outcome == "plan-mismatch" then
    return answer(refused)
  end
  local states = {}
  for i, a in ipairs(accounts) do
    states[i] = state_of(a)
  end
  return answer({ outcome = "estimate", accounts = states, amounts = amounts, fits = fits })
end

local tombstone_ttl = text(integer(args.tombstone_ttl_ms))
if refused then
  local encoded = cjson.encode(refused)
  if args.scope ~= "" then
    redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "denied", encoded)
    redis.call("PEXPIRE", claim_key, tombstone_ttl)
  end
  return { encoded }
end

local deadline = text(integer(integer(now) + integer(args.hold_ttl_ms)))
local states = {}
for i, a in ipairs(accounts) do
  states[i] = state_of(a, a.next_committed)
end
local reserved = cjson.encode({ outcome = "reserved", release = args.release, accounts = states })

if #opened > 0 then
  journal("open", "", "", "", opened_amounts)
  for _, a in ipairs(opened) do
    write_new_account(a)
  end
end
journal("reserve", args.release, args.mechanism, "", amounts)
for _, a in ipairs(accounts) do
  redis.call("HSET", base .. "account:" .. a.name, "held", a.next_held)
end
redis.call("HSET", release_key, "state", "held", "scope", args.scope, "mechanism", args.mechanism,
  "debits", cjson.encode(debits), "reserved", reserved, "at_ms", now)
redis.call("ZADD", base .. "overdue", deadline, args.release)
if args.scope ~= "" then
  redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "release", args.release)
  redis.call("PERSIST", claim_key)
end
return { reserved }
