-- Ends a hold. The scripts commit, cancel, expire and job share this text; Python prepends it to each.

-- Adds the cumulants of the privacy loss to the sums over an account's history. The sums are doubles: they serve an
-- estimate only and admit no release. A history that contains a release of unknown cumulants has no sums ({}).
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

-- Moves a hold to the final state `state`. `spends` says whether the hold is spent or refunded.
-- Returns the answer and, if this call ended the hold, the scope of the claim ("" for none).
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
        a.pure_epsilon = "0" -- the releases do not share one epsilon
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
    redis.call("PEXPIRE", base .. "claim:" .. r.scope, tombstone_ttl) -- no other release could claim it before
  end
  return answer({ outcome = state, at_ms = text(now) }), r.scope
end
