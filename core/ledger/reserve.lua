-- Claims the idempotency key, checks every debit and holds all of them, or holds nothing.
-- With `estimate` the script returns the decision that it would make and writes nothing.
--
-- The debits are two JSON texts with one row for each account, {unit, subject hash or "", vector}: args.subject_rows for
-- the accounts of subjects ("" for none), then ARGV[2] for the tenant's own. args.accounts contains, row by row, the
-- orders of the vector's Renyi costs and the signatures of the two plans that admit the release. args.subjects says
-- whether "all", "some" or "none" of the charges name a subject. If they do, the rows without a subject are the sums
-- over all subjects. args.losses is stored for the settlement.
--
-- The journal stores ARGV[2] unchanged. Of args.subject_rows it stores the SHA-256, args.digest, until the release is
-- spent: a hold that is refunded leaves nothing whose size depends on the number of its subjects. args.generated is set
-- if the gateway generated the idempotency key. Such a key leaves nothing unless the release is spent. args.key is the id
-- of the API key that caused the release, and args.route the route that it was sent to, or "". args.words lists what the
-- request says of the release, names and values, or is nil.
local mode = tenant().mode
if not mode then
  return answer({ outcome = "unknown-tenant" })
end

local claim_key = base .. "claim:" .. args.scope
local claimed_before = false
if not args.estimate then
  -- a retry of the same attempt: its reply was lost, or it arrives after its hold has ended
  local own = read_release(args.release)
  if own and own.state == "held" then
    return { own.reserved }
  end
  if own then
    return answer({ outcome = "not-open", state = own.state })
  end

  if args.scope ~= "" then
    local claim = redis.call("HMGET", claim_key, "fingerprint", "release", "denied", "ended")
    if claim[1] then
      claimed_before = true
      if claim[1] ~= args.fingerprint then
        return answer({ outcome = "conflict" })
      end
      if claim[3] then
        return { claim[3] } -- a denied key stays denied and returns the same numbers
      end
      local earlier = read_release(claim[2])
      local state = earlier and earlier.state or claim[4]
      if state == "held" then
        return answer({ outcome = "in-flight" })
      end
      if state == "committed" then
        local response = redis.call("GET", base .. "response:" .. claim[2])
        if response then
          return { cmsgpack.pack({ outcome = "replay", release = claim[2] }), response }
        end
      end
      if state ~= "cancelled" then
        return answer({ outcome = "gone" })
      end
      -- The earlier release was cancelled before any noise was drawn, so a new release may claim the key.
    end
  end
end

if tenant().state ~= "active" and not args.estimate then
  return answer({ outcome = "tenant-" .. (tenant().state == "suspended" and "suspended" or "closed") })
end
if mode == "tenant" and args.subjects ~= "none" then
  return answer({ outcome = "subject-not-allowed" })
end
if mode == "subject" and args.subjects ~= "all" then
  return answer({ outcome = "subject-required" })
end

-- Whether a limit admits an account's total: a plan limits the number of releases, a filter admits what any of its
-- arms admits. An arm that the account does not offer has the limit -1, which admits nothing.
local function admits(limit, plan, total)
  if plan ~= "" then
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

-- Returns the position of the limit that the first release of an account selects: the division for the kind of the
-- release, or the division that gives all of delta to basic composition where only that one admits the release. See
-- `Division` in core/accounting/filters.py.
local PURE, GAUSSIAN, BASIC = 1, 2, 3
local function chosen_division(divisions, cost)
  local division = cost[NO_RHO] > 0 and BASIC or cost[NO_SQUARE] > 0 and GAUSSIAN or PURE
  if not admits(divisions[division], "", cost) and admits(divisions[BASIC], "", cost) then
    division = BASIC
  end
  return division
end

-- Returns the account of a debit. The first hold of a subject creates the subject's account on the terms that the
-- tenant was opened with. Any other account that does not exist is an error, never a fresh budget.
local opened = {}
local function account_for(unit, subject)
  local a = read_account(account_name(unit, subject))
  if not a and subject ~= "" then
    local terms = redis.call("HGET", KEYS[1], "subject:" .. unit)
    if terms then
      terms = cmsgpack.unpack(terms)
      terms[2] = subject
      a = new_account(terms)
      opened[#opened + 1] = a
    end
  end
  return a
end

local debits = args.subject_rows ~= "" and cjson.decode(args.subject_rows) or {}
for _, debit in ipairs(cjson.decode(ARGV[2])) do
  debits[#debits + 1] = debit
end
if #debits == 0 or #debits ~= #args.accounts then
  error("a release debits at least one account, on the terms of each")
end
local accounts, orders, fits, seen, divided = {}, {}, {}, {}, {}
local other_orders, overflow, refused = false, false, nil
for i, debit in ipairs(debits) do
  local unit, subject, cost = unpack(debit)
  local a = account_for(unit, subject)
  if not a then
    return answer({ outcome = "unknown-account" })
  end
  if seen[a.name] then
    error("two debits of one account")
  end
  seen[a.name] = true
  accounts[i], orders[i] = a, a.orders
  if a.orders ~= args.accounts[i][1] then
    other_orders = true
  else
    if #cost ~= #a.limit then
      error("a debit with missing positions")
    end
    local total = {}
    for j = 1, #cost do
      local number = cost[j]
      if number < 0 or number > LARGEST or number % 1 ~= 0 then
        error("not an integer between 0 and 2^53")
      end
      total[j] = a.committed[j] + a.held[j] + number
      overflow = overflow or total[j] > LARGEST
    end
    if #a.divisions > 0 then
      local division = chosen_division(a.lowered or a.divisions, cost)
      local limit = a.divisions[division]
      if limit_text(limit) ~= limit_text(a.limit) and a ~= opened[#opened] then
        divided[#divided + 1] = a
      end
      a.limit = limit -- an account opened by this release is opened with this limit
      a.current = a.lowered and a.lowered[division]
    end
    fits[i] = admits(a.limit, a.plan, total) and (not a.current or admits(a.current, a.plan, total))
    if a.plan ~= "" and a.plan ~= args.accounts[i][2] and a.plan ~= args.accounts[i][3] then
      if not refused or refused.outcome ~= "plan-mismatch" then
        refused = { outcome = "plan-mismatch", account = state_of(a) }
      end
    elseif not fits[i] and not refused then
      refused = { outcome = "denied", account = state_of(a), requested = cost }
    end
  end
end
if other_orders then
  return answer({ outcome = "other-orders", orders = orders }) -- the caller prices the release again at these orders
end
if overflow and not refused then
  local headroom = {} -- a counter would exceed 2^53: the caller marks the release as unpriced in that arm
  for i, a in ipairs(accounts) do
    headroom[i] = {}
    for j = 1, #a.limit do
      headroom[i][j] = LARGEST - a.committed[j] - a.held[j]
    end
  end
  return answer({ outcome = "counter-overflow", headroom = headroom })
end

if args.estimate then
  if refused and refused.outcome == "plan-mismatch" then
    return answer(refused)
  end
  local states, costs = {}, {}
  for i, a in ipairs(accounts) do
    states[i], costs[i] = state_of(a), debits[i][3]
  end
  return answer({ outcome = "estimate", accounts = states, costs = costs, fits = fits })
end

-- Returns the setting whose limit the tenant has reached, or nil.
local own_key = args.scope ~= "" and not args.generated
local function reached_limit()
  if tenant().holds >= integer(args.holds_max) then
    return "holds_per_tenant_max"
  end
  if uncharged_until() - now > HOUR_MS then
    return "uncharged_holds_per_hour_max"
  end
  if own_key then -- the response to a key of the caller is stored, so refuse it while that is free
    local _, total = stored_responses()
    if total >= integer(args.stored_bytes_max) then
      return "stored_bytes_per_tenant_max"
    end
  end
end

local tombstone_ttl = integer(args.tombstone_ttl_ms)
if refused and not own_key then
  return answer(refused)
end
local limit_reached = reached_limit()
if limit_reached then
  return answer({ outcome = "tenant-limit", limit = limit_reached })
end
if refused then
  local denial = cmsgpack.pack(refused)
  redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "denied", denial)
  redis.call("PEXPIRE", claim_key, tombstone_ttl)
  redis.call("HSET", KEYS[1], "uncharged_until_ms", text(uncharged_until()))
  return { denial }
end

local deadline = text(now + integer(args.hold_ttl_ms))
local states, held = {}, {}
for i, a in ipairs(accounts) do
  -- what the response shows: this release as committed, the other open holds as reserved
  states[i] = state_of(a, sum(a.committed, debits[i][3], 1))
  held[i] = cmsgpack.pack(sum(a.held, debits[i][3], 1))
end
local reserved = cmsgpack.pack({ outcome = "reserved", release = args.release, accounts = states })

if #divided > 0 then
  write_limits(divided)
end
journal("reserve", args.release, args.mechanism, "", ARGV[2], args.digest, args.key, args.route, args.words, 1)
for _, a in ipairs(opened) do
  write_new_account(a, true)
end
for i, a in ipairs(accounts) do
  redis.call("HSET", base .. "account:" .. a.name, "held", held[i])
end
redis.call("SET", base .. "release:" .. args.release, cmsgpack.pack({ state = "held", at_ms = text(now),
  scope = args.scope, generated = args.generated, key = args.key, route = args.route, words = args.words,
  mechanism = args.mechanism, amounts = ARGV[2], subject_rows = args.subject_rows, digest = args.digest,
  debits = debits, losses = args.losses, reserved = reserved }))
redis.call("ZADD", base .. "overdue", deadline, args.release)
if args.scope ~= "" then
  redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "release", args.release, "ended", "")
  if claimed_before then
    redis.call("PERSIST", claim_key)
  end
end
return { reserved }
