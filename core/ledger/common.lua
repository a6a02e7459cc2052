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

local function answer(value)
  return { cjson.encode(value) }
end

local now = args.now_ms
if not now then
  local time = redis.call("TIME")
  now = text(tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
end
integer(now)

-- What an account counts is a vector of integers, written as decimals with a blank between them. After these
-- seven positions follow the Renyi costs in nano, one for each of the account's orders.
local COUNT = 1 -- releases
local EPSILON = 2 -- sum of epsilon, nano
local DELTA = 3 -- sum of delta, femto
local SQUARE = 4 -- sum of epsilon^2, nano
local NO_EPSILON = 5 -- releases that basic composition cannot price
local NO_SQUARE = 6 -- releases that the Whitehouse arm cannot price
local NO_RHO = 7 -- releases that the Renyi arms cannot price

local function words(blank_separated)
  local found = {}
  for word in string.gmatch(blank_separated, "%S+") do
    found[#found + 1] = word
  end
  return found
end

local function vector(packed)
  local v = words(packed)
  for i = 1, #v do
    v[i] = integer(v[i])
  end
  return v
end

local function packed(v)
  local texts = {}
  for i = 1, #v do
    texts[i] = text(v[i])
  end
  return table.concat(texts, " ")
end

-- The limit of an account: -1 stands where an arm is not offered.
local function limits(packed)
  local v = words(packed)
  for i = 1, #v do
    v[i] = v[i] == "-1" and -1 or integer(v[i])
  end
  return v
end

-- a + sign * b. A difference below 0 or a sum above 2^53 is refused: no counter is ever wrong in silence.
local function sum(a, b, sign)
  if #a ~= #b then
    error("two vectors of another length")
  end
  local v = {}
  for i = 1, #a do
    v[i] = integer(a[i] + sign * b[i])
  end
  return v
end

local function account_name(unit, subject)
  if subject == "" then
    return unit
  end
  return unit .. ":" .. subject
end

-- An account is opened with terms that never change: {unit, subject, adjacency, guarantee, orders, plan, limit}.
local function account_of(terms)
  return {
    name = account_name(terms[1], terms[2]), unit = terms[1], subject = terms[2], adjacency = terms[3],
    guarantee = terms[4], orders = terms[5], plan = terms[6], limit = terms[7],
  }
end

local function new_account(terms)
  local a = account_of(terms)
  local size = #limits(a.limit)
  if size ~= NO_RHO + #words(a.orders) then
    error("a limit that does not fit the orders")
  end
  a.committed = string.rep("0 ", size - 1) .. "0"
  a.held, a.moments, a.pure_epsilon = a.committed, "", ""
  return a
end

-- The account, its vectors still as texts, or nil when it does not exist.
local function read_account(name)
  local f = redis.call("HMGET", base .. "account:" .. name, "unit", "subject_hash", "adjacency", "guarantee", "orders",
    "plan", "limit", "committed", "held", "moments", "pure_epsilon")
  if not f[1] then
    return nil
  end
  local a = account_of(f)
  a.committed, a.held, a.moments, a.pure_epsilon = f[8], f[9], f[10], f[11]
  return a
end

-- What Python reads as an AccountState; `committed` replaces the account's.
local function state_of(a, committed)
  return { a.unit, a.subject, a.adjacency, a.guarantee, a.orders, a.plan, a.limit, committed or a.committed, a.held }
end

local function write_new_account(a)
  redis.call("HSET", base .. "account:" .. a.name, "unit", a.unit, "subject_hash", a.subject,
    "adjacency", a.adjacency, "guarantee", a.guarantee, "orders", a.orders, "plan", a.plan, "limit", a.limit,
    "committed", a.committed, "held", a.held, "moments", a.moments, "pure_epsilon", a.pure_epsilon,
    "created_ms", now)
  redis.call("ZADD", base .. "accounts", 0, a.name)
end

-- One entry a transition under the next sequence number, so that a lost entry is a visible gap. `amounts` is a
-- list of {unit, subject, vector, ...}; what follows the vector is the account's terms where one is opened.
local function journal(transition, release, mechanism, reason, amounts)
  local seq = redis.call("HINCRBY", KEYS[1], "seq", 1)
  redis.call("XADD", base .. "journal", text(seq) .. "-0", "transition", transition, "release", release,
    "mechanism", mechanism, "reason", reason, "at_ms", now, "amounts", cjson.encode(amounts))
end

local function opening(a)
  return { a.unit, a.subject, a.limit, a.adjacency, a.guarantee, a.orders, a.plan }
end
