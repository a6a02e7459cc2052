-- Shared by every transition: Python puts this text before each script.
--
-- KEYS[1] is the tenant's record, "{tenant}:tenant". Every other key is derived from its hash tag, so a script
-- touches one slot only. ARGV[1] is a JSON object whose integers are decimal strings: cjson prints numbers with
-- 14 digits, Lua holds them as doubles, and an amount may have 16 digits (all stay below 2^53).
--
-- Redis isolates a script but does not roll it back: a script validates everything before its first write, and
-- its first write is the journal entry.

local base = string.sub(KEYS[1], 1, -7) -- without "tenant"
local args = cjson.decode(ARGV[1])
local LARGEST = 9007199254740991 -- 2^53 - 1

local function integer(value)
  local number = tonumber(value)
  if not number or number < 0 or number > LARGEST or number % 1 ~= 0 then
    error("not an integer between 0 and 2^53")
  end
  return number
end

local function text(number)
  return string.format("%.0f", number)
end

local function add(a, b)
  return integer(a + b)
end

local function answer(value)
  return { cjson.encode(value) }
end

local now = args.now_ms
if not now then
  local time = redis.call("TIME")
  now = text(tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
end
integer(now)

local function account_name(unit, subject)
  if subject == "" then
    return unit
  end
  return unit .. ":" .. subject
end

-- The account as integers, or nil when it does not exist.
local function read_account(name)
  local f = redis.call("HMGET", base .. "account:" .. name, "unit", "adjacency", "subject_hash", "limit_epsilon",
    "limit_delta", "committed_epsilon", "committed_delta", "held_epsilon", "held_delta")
  if not f[1] then
    return nil
  end
  return {
    name = name, unit = f[1], adjacency = f[2], subject = f[3],
    limit_epsilon = integer(f[4]), limit_delta = integer(f[5]),
    committed_epsilon = integer(f[6]), committed_delta = integer(f[7]),
    held_epsilon = integer(f[8]), held_delta = integer(f[9]),
  }
end

-- What Python reads as an AccountState.
local function state_of(a)
  return { a.unit, a.adjacency, a.subject, text(a.limit_epsilon), text(a.limit_delta), text(a.committed_epsilon),
    text(a.committed_delta), text(a.held_epsilon), text(a.held_delta) }
end

local function write_new_account(a)
  redis.call("HSET", base .. "account:" .. a.name, "unit", a.unit, "adjacency", a.adjacency,
    "subject_hash", a.subject, "limit_epsilon", text(a.limit_epsilon), "limit_delta", text(a.limit_delta),
    "committed_epsilon", "0", "committed_delta", "0", "held_epsilon", "0", "held_delta", "0", "created_ms", now)
  redis.call("ZADD", base .. "accounts", 0, a.name)
end

-- One entry a transition under the next sequence number, so that a lost entry is a visible gap.
-- `amounts` is a list of {unit, subject, epsilon, delta}.
local function journal(transition, release, mechanism, reason, amounts)
  local seq = redis.call("HINCRBY", KEYS[1], "seq", 1)
  redis.call("XADD", base .. "journal", text(seq) .. "-0", "transition", transition, "release", release,
    "mechanism", mechanism, "reason", reason, "at_ms", now, "amounts", cjson.encode(amounts))
end

-- Ends a hold. `state` is the absorbing state, `spends` says whether the hold is spent or refunded.
-- Returns the answer and, when this call was the one that ended the hold, the claim's scope ("" for none).
local function settle(transition, state, spends)
  local release_key = base .. "release:" .. args.release
  local r = redis.call("HMGET", release_key, "state", "settled", "debits", "mechanism", "scope")
  if not r[1] then
    return answer({ outcome = "not-open", state = "unknown" })
  end
  if r[1] == state then
    return { r[2] }
  end
  if r[1] ~= "held" then
    return answer({ outcome = "not-open", state = r[1] })
  end

  local debits = cjson.decode(r[3])
  local states = {}
  local moves = {}
  for i, debit in ipairs(debits) do
    local a = read_account(account_name(debit[1], debit[2]))
    if not a then
      error("the account of a hold is missing")
    end
    local epsilon, delta = integer(debit[3]), integer(debit[4])
    -- a hold that the account does not have would make a counter negative: `integer` refuses it
    a.held_epsilon = integer(a.held_epsilon - epsilon)
    a.held_delta = integer(a.held_delta - delta)
    if spends then
      a.committed_epsilon = add(a.committed_epsilon, epsilon)
      a.committed_delta = add(a.committed_delta, delta)
    end
    states[i] = state_of(a)
    moves[i] = a
  end
  local tombstone_ttl = text(integer(args.tombstone_ttl_ms))
  local settled = cjson.encode({ outcome = state, release = args.release, at_ms = now, accounts = states })

  journal(transition, args.release, r[4], args.reason, debits)
  for _, a in ipairs(moves) do
    redis.call("HSET", base .. "account:" .. a.name, "committed_epsilon", text(a.committed_epsilon),
      "committed_delta", text(a.committed_delta), "held_epsilon", text(a.held_epsilon),
      "held_delta", text(a.held_delta))
  end
  redis.call("HSET", release_key, "state", state, "settled", settled, "reason", args.reason)
  redis.call("HDEL", release_key, "debits", "reserved")
  redis.call("PEXPIRE", release_key, tombstone_ttl)
  redis.call("ZREM", base .. "overdue", args.release)
  if r[5] ~= "" then
    local claim_key = base .. "claim:" .. r[5]
    if redis.call("HGET", claim_key, "release") == args.release then
      redis.call("PEXPIRE", claim_key, tombstone_ttl)
    end
  end
  return { settled }, r[5]
end
