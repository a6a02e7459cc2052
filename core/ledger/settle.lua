-- Ends a hold; shared by commit, cancel and expire, which Python puts after it.

-- Adds up the cumulants of the privacy loss over an account's history: doubles, for an estimate that admits nothing.
-- A history with a release of unknown cumulants has none ({}).
local function add_loss(packed_total, loss)
  if not packed_total then
    return cmsgpack.pack(loss)
  end
  local total = cmsgpack.unpack(packed_total)
  for i = 1, #total do
    total[i] = loss[i] and total[i] + loss[i]
  end
  return cmsgpack.pack(total)
end

local function spend_loss(a, loss)
  local key = base .. "account:" .. a.name
  local history = redis.call("HMGET", key, "loss_x", "loss_y", "pure_epsilon")
  local pure_epsilon = text(loss[3])
  if history[3] and history[3] ~= pure_epsilon then
    pure_epsilon = "0" -- not all of one epsilon
  end
  redis.call("HSET", key, "loss_x", add_loss(history[1], loss[1]), "loss_y", add_loss(history[2], loss[2]),
    "pure_epsilon", pure_epsilon)
end

-- `state` is the absorbing state, `spends` says whether the hold is spent or refunded.
-- Returns the answer and, when this call was the one that ended the hold, the claim's scope ("" for none).
local function settle(transition, state, spends)
  local release_key = base .. "release:" .. args.release
  local r = redis.call("HMGET", release_key, "state", "at_ms", "debits", "losses", "mechanism", "scope")
  if not r[1] then
    return answer({ outcome = "not-open", state = "unknown" })
  end
  if r[1] == state then
    return answer({ outcome = state, at_ms = r[2] })
  end
  if r[1] ~= "held" then
    return answer({ outcome = "not-open", state = r[1] })
  end

  local accounts = {}
  for i, debit in ipairs(cjson.decode(r[3])) do
    local a = read_account(account_name(debit[1], debit[2]))
    if not a then
      error("the account of a hold is missing")
    end
    a.held = sum(a.held, debit[3], -1)
    if spends then
      a.committed = sum(a.committed, debit[3], 1)
    end
    accounts[i] = a
  end
  local losses = cjson.decode(r[4])
  local tombstone_ttl = integer(args.tombstone_ttl_ms)

  journal(transition, args.release, r[5], args.reason, r[3])
  for i, a in ipairs(accounts) do
    redis.call("HSET", base .. "account:" .. a.name, "committed", cmsgpack.pack(a.committed),
      "held", cmsgpack.pack(a.held))
    if spends then
      spend_loss(a, losses[i])
    end
  end
  redis.call("HSET", release_key, "state", state, "at_ms", text(now), "reason", args.reason,
    "debits", "", "losses", "", "reserved", "")
  redis.call("PEXPIRE", release_key, tombstone_ttl)
  redis.call("ZREM", base .. "overdue", args.release)
  if r[6] ~= "" then
    redis.call("PEXPIRE", base .. "claim:" .. r[6], tombstone_ttl) -- while the hold was open the claim was its own
  end
  return answer({ outcome = state, at_ms = text(now) }), r[6]
end
