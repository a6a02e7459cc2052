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

-- The record of an ended release serves only retries whose reply was lost. Later calls find no release, and are refused.
local RETRIED_FOR_MS = 600000

-- Moves a hold to the final state `state`. `spends` says whether the hold is spent or refunded.
-- For a hold that this call spends, `keep(r)` may return a field of the tenant's record and its new value.
local function settle(transition, state, spends, keep)
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

  local accounts, opened = {}, {}
  for i, debit in ipairs(r.debits) do
    local a = { name = account_name(debit[1], debit[2]) }
    a.key = base .. "account:" .. a.name
    local f = redis.call("HMGET", a.key, "committed", "held", "loss_x", "loss_y", "pure_epsilon", "pending")
    if not f[1] then
      error("the account of a hold is missing")
    end
    local held = sum(cmsgpack.unpack(f[2]), debit[3], -1)
    a.held = cmsgpack.pack(held)
    a.disappears = not spends and f[6] == "1" and held[COUNT] == 0
    if spends and f[6] == "1" then
      opened[#opened + 1] = read_account(a.name)
      opened[#opened].divisions = cmsgpack.unpack(opened[#opened].offered or cmsgpack.pack({}))
    end
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
  local own_key = r.scope ~= "" and not r.generated
  local field, value
  if not spends then
    field, value = "uncharged_until_ms", text(uncharged_until())
  elseif keep then
    field, value = keep(r)
  end

  if #opened > 0 then
    local opening, rows = journal_openings(opened), {}
    for i, a in ipairs(opened) do
      rows[i] = { a.unit, a.subject }
    end
    index_entry(opening, rows)
  end
  local seq = journal(transition, args.release, r.mechanism, args.reason, r.amounts,
    spends and r.subject_rows or r.digest, r.key, r.route, r.words, -1, field, value)
  if spends and r.subject_rows ~= "" then
    index_entry(seq, r.debits)
  end
  for _, a in ipairs(opened) do
    redis.call("HSET", base .. "account:" .. a.name, "pending", "") -- from its first entry on
  end
  for _, a in ipairs(accounts) do
    if spends then
      redis.call("HSET", a.key, "committed", a.committed, "held", a.held, "loss_x", a.loss_x, "loss_y", a.loss_y,
        "pure_epsilon", a.pure_epsilon)
    elseif a.disappears then
      redis.call("PEXPIRE", a.key, 0) -- deletes it; the ledger's user may not send DEL
      redis.call("ZREM", base .. "accounts", a.name)
    else
      redis.call("HSET", a.key, "held", a.held)
    end
  end
  local kept_ms = math.min(RETRIED_FOR_MS, tombstone_ttl)
  local tombstone = { state = state, at_ms = text(now) }
  redis.call("SET", base .. "release:" .. args.release, cmsgpack.pack(tombstone), "PX", kept_ms)
  redis.call("ZREM", base .. "overdue", args.release)
  if r.scope ~= "" then
    -- No other release could claim it before. The state outlives the record of the release. A generated key is free again
    -- unless the release was spent.
    local claim_key = base .. "claim:" .. r.scope
    local generated_ttl = spends and integer(args.generated_ttl_ms or tombstone_ttl) or 0
    redis.call("HSET", claim_key, "ended", state)
    redis.call("PEXPIRE", claim_key, own_key and tombstone_ttl or generated_ttl)
  end
  return answer({ outcome = state, at_ms = text(now) })
end
