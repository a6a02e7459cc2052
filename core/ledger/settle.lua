-- Ends a hold; shared by commit, cancel and expire, which Python puts after it.

-- The cumulants of the privacy loss over the account's whole history: doubles, for an estimate that admits nothing.
local function add_moments(a, moments, pure_epsilon)
  if a.moments == "" then
    a.moments, a.pure_epsilon = moments, pure_epsilon
    return
  end
  local totals, added = words(a.moments), words(moments)
  -- a release without moments leaves a history without them
  a.moments = "none"
  if #added == #totals and #added > 1 then
    for i = 1, #totals do
      totals[i] = string.format("%.17g", tonumber(totals[i]) + tonumber(added[i]))
    end
    a.moments = table.concat(totals, " ")
  end
  if a.pure_epsilon ~= pure_epsilon then
    a.pure_epsilon = "mixed"
  end
end

-- `state` is the absorbing state, `spends` says whether the hold is spent or refunded.
-- Returns the answer and, when this call was the one that ended the hold, the claim's scope ("" for none).
local function settle(transition, state, spends)
  local release_key = base .. "release:" .. args.release
  local r = redis.call("HMGET", release_key, "state", "at_ms", "debits", "mechanism", "scope")
  if not r[1] then
    return answer({ outcome = "not-open", state = "unknown" })
  end
  if r[1] == state then
    return answer({ outcome = state, at_ms = r[2] })
  end
  if r[1] ~= "held" then
    return answer({ outcome = "not-open", state = r[1] })
  end

  local accounts, amounts = {}, {}
  for i, debit in ipairs(cjson.decode(r[3])) do
    local unit, subject, cost, moments, pure_epsilon = unpack(debit)
    local a = read_account(account_name(unit, subject))
    if not a then
      error("the account of a hold is missing")
    end
    a.held = packed(sum(vector(a.held), vector(cost), -1))
    if spends then
      a.committed = packed(sum(vector(a.committed), vector(cost), 1))
      add_moments(a, moments, pure_epsilon)
    end
    accounts[i] = a
    amounts[i] = { unit, subject, cost }
  end
  local tombstone_ttl = text(integer(args.tombstone_ttl_ms))

  journal(transition, args.release, r[4], args.reason, amounts)
  for _, a in ipairs(accounts) do
    redis.call("HSET", base .. "account:" .. a.name, "committed", a.committed, "held", a.held,
      "moments", a.moments, "pure_epsilon", a.pure_epsilon)
  end
  redis.call("HSET", release_key, "state", state, "at_ms", now, "reason", args.reason, "debits", "", "reserved", "")
  redis.call("PEXPIRE", release_key, tombstone_ttl)
  redis.call("ZREM", base .. "overdue", args.release)
  if r[5] ~= "" then
    local claim_key = base .. "claim:" .. r[5]
    if redis.call("HGET", claim_key, "release") == args.release then
      redis.call("PEXPIRE", claim_key, tombstone_ttl)
    end
  end
  return answer({ outcome = state, at_ms = now }), r[5]
end
