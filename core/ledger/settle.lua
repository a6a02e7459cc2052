-- Ends a hold; shared by commit, cancel, expire and job, which Python puts after it.

-- Adds up the cumulants of the privacy loss over an account's history: doubles, for an estimate that admits nothing.
-- A history with a release of unknown cumulants has none ({}).
local function plus_loss(packed_total, loss)
  if not packed_total then
    return cmsgpack.pack(loss)
  end
  local total = cmsgpack.unpack(packed_total)
  for i = 1, #total do
    total[i] = loss[i] and total[i] + loss[i]
  end
  return cmsgpack.pack(total)
end

-- `state` is the absorbing state, `spends` says whether the hold is spent or refunded.
-- Returns the answer and, when this call was the one that ended the hold, the claim's scope ("" for none).
local function settle(transition, state, spends)
  local r = read_release(args.release)
  if not r then
    return answer({ outcome = "not-open", state = "unknown" })
  end
  if r.state == state then
    return answer({ outcome = state, at_ms = r.at_ms })
  end
  if r.state ~= "held" then
    return answer({ outcome = "not-open", state = r.state })
  end

  local accounts = {}
  for i, debit in ipairs(r.debits) do
    local a = { key = base .. "account:" .. account_name(debit[1], debit[2]) }
    local f = redis.call("HMGET", a.key, "committed", "held", "loss_x", "loss_y", "pure_epsilon")
    if not f[1] then
      error("the account of a hold is missing")
    end
    a.held = cmsgpack.pack(sum(cmsgpack.unpack(f[2]), debit[3], -1))
    if spends then
      a.committed = cmsgpack.pack(sum(cmsgpack.unpack(f[1]), debit[3], 1))
      a.loss_x, a.loss_y = plus_loss(f[3], r.losses[i][1]), plus_loss(f[4], r.losses[i][2])
      a.pure_epsilon = text(r.losses[i][3])
      if f[5] and f[5] ~= a.pure_epsilon then
        a.pure_epsilon = "0" -- not all of one epsilon
      end
    end
    accounts[i] = a
  end
  local tombstone_ttl = integer(args.tombstone_ttl_ms)

  journal(transition, args.release, r.mechanism, args.reason, r.amounts)
  for _, a in ipairs(accounts) do
    if spends then
      redis.call("HSET", a.key, "committed", a.committed, "held", a.held, "loss_x", a.loss_x, "loss_y", a.loss_y,
        "pure_epsilon", a.pure_epsilon)
    else
      redis.call("HSET", a.key, "held", a.held)
    end
  end
  local tombstone = { state = state, at_ms = text(now) }
  redis.call("SET", base .. "release:" .. args.release, cmsgpack.pack(tombstone), "PX", tombstone_ttl)
  redis.call("ZREM", base .. "overdue", args.release)
  if r.scope ~= "" then
    redis.call("PEXPIRE", base .. "claim:" .. r.scope, tombstone_ttl) -- while the hold was open the claim was its own
  end
  return answer({ outcome = state, at_ms = text(now) }), r.scope
end
