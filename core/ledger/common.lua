-- Code that all transitions share. Python prepends this text to each script.
--
-- KEYS[1] is the tenant's record, "{tenant}:tenant". Every other key is derived from its hash tag, so a script
-- accesses one slot only. ARGV[1], answers and the counters of accounts are msgpack. Msgpack preserves integers below
-- 2^53 exactly, which is also the range that a Lua number (a double) represents exactly. cjson prints only 14 digits,
-- so it is never used to write an integer.
--
-- Redis isolates a script but does not roll it back. Therefore a script validates everything before its first write,
-- and its first write is the journal entry.

local base = string.sub(KEYS[1], 1, -7) -- without "tenant"
local args = cmsgpack.unpack(ARGV[1])
local LARGEST = 9007199254740991 -- 2^53 - 1

local function integer(number)
  if type(number) ~= "number" or number < 0 or number > LARGEST or number % 1 ~= 0 then
    error("not an integer between 0 and 2^53")
  end
  return number
end

local function text(number)
  return string.format("%d", integer(number))
end

local function answer(value)
  return { cmsgpack.pack(value) }
end

-- The fields of the tenant's record that most transitions use, read at once.
local record
if string.sub(KEYS[1], -7) == ":tenant" then
  record = redis.call("HMGET", KEYS[1], "mode", "seq", "holds", "uncharged_until_ms", "stored", "state")
end

local now = args.now_ms
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
integer(now)

-- The counters of an account are a vector of integers, stored as msgpack. The seven positions below come first. The
-- Renyi costs in nano follow, one for each of the account's orders.
local COUNT = 1 -- releases
local EPSILON = 2 -- sum of epsilon, nano
local DELTA = 3 -- sum of delta, femto
local SQUARE = 4 -- sum of epsilon^2, nano
local NO_EPSILON = 5 -- releases without a price in basic composition
local NO_SQUARE = 6 -- releases without a price in the Whitehouse arm
local NO_RHO = 7 -- releases without a price in the Renyi arms

-- Returns a + sign * b. Raises an error for a result below 0 or above 2^53, so that a counter never wraps or rounds.
local function sum(a, b, sign)
  if #a ~= #b then
    error("two vectors of another length")
  end
  local v = {}
  for i = 1, #a do
    local number = a[i] + sign * b[i]
    if number < 0 or number > LARGEST then
      error("a counter below 0 or above 2^53")
    end
    v[i] = number
  end
  return v
end

-- Returns a release by its id, or nil: {state, at_ms}, and for an open hold also the data that settling it needs.
local function read_release(id)
  local found = redis.call("GET", base .. "release:" .. id)
  return found and cmsgpack.unpack(found) or nil
end

local function account_name(unit, subject)
  if subject == "" then
    return unit
  end
  return unit .. ":" .. subject
end

local function check_limit(limit, length)
  if #limit ~= length then
    error("a limit that does not fit the orders")
  end
  for i = 1, #limit do
    if limit[i] ~= -1 then -- -1 marks an arm that the account does not offer
      integer(limit[i])
    end
  end
end

-- Builds an account from its terms, which never change: {unit, subject, adjacency, guarantee, orders, plan, limit,
-- divisions}. The first release of the account selects its limit from the divisions. Without divisions the limit is
-- fixed.
local function new_account(terms)
  local unit, subject, adjacency, guarantee, orders, plan, limit, divisions = unpack(terms)
  local _, order_count = string.gsub(orders, "%S+", "")
  check_limit(limit, NO_RHO + order_count)
  for _, division in ipairs(divisions or {}) do
    check_limit(division, #limit)
  end
  local nothing = {}
  for i = 1, #limit do
    nothing[i] = 0
  end
  return {
    name = account_name(unit, subject), unit = unit, subject = subject, adjacency = adjacency, guarantee = guarantee,
    orders = orders, plan = plan, limit = limit, divisions = divisions or {}, committed = nothing, held = nothing,
  }
end

-- Returns the position of `limit` among the divisions, or 1.
local function division_of(limit, divisions)
  for i, division in ipairs(divisions) do
    if table.concat(division, " ") == table.concat(limit, " ") then
      return i
    end
  end
  return 1
end

-- Returns the account, or nil if it does not exist. An account for which the operator has set a current limit also has
-- `lowered`, the current limit of each division, and `current`, that of its own division.
local function read_account(name)
  local f = redis.call("HMGET", base .. "account:" .. name, "unit", "subject_hash", "adjacency", "guarantee", "orders",
    "plan", "limit", "committed", "held", "divisions", "pending", "current")
  if not f[1] then
    return nil
  end
  local a = {
    name = name, unit = f[1], subject = f[2], adjacency = f[3], guarantee = f[4], orders = f[5], plan = f[6],
    limit = cmsgpack.unpack(f[7]), committed = cmsgpack.unpack(f[8]), held = cmsgpack.unpack(f[9]), divisions = {},
    offered = f[10], pending = f[11] == "1",
  }
  if f[10] and a.committed[COUNT] + a.held[COUNT] == 0 then
    a.divisions = cmsgpack.unpack(f[10])
  end
  if f[12] and f[12] ~= "" then
    a.current_epsilon, a.lowered = unpack(cmsgpack.unpack(f[12]))
    a.current = a.lowered[f[10] and division_of(a.limit, cmsgpack.unpack(f[10])) or 1]
  end
  return a
end

-- Returns the row that Python parses into an AccountState. `committed` overrides the account's own value.
local function state_of(a, committed)
  return { a.unit, a.subject, a.adjacency, a.guarantee, a.orders, a.plan, a.limit, committed or a.committed, a.held,
    a.current and { a.current_epsilon, a.current, a.lowered } or "" }
end

-- Writes an account without a journal entry. A `pending` account exists because of open holds alone: the first release
-- that is spent opens it in the journal, and it disappears with the last hold if all of them are refunded.
local function write_new_account(a, pending)
  local nothing = cmsgpack.pack(a.committed)
  redis.call("HSET", base .. "account:" .. a.name, "unit", a.unit, "subject_hash", a.subject,
    "adjacency", a.adjacency, "guarantee", a.guarantee, "orders", a.orders, "plan", a.plan,
    "limit", cmsgpack.pack(a.limit), "committed", nothing, "held", nothing, "created_ms", text(now),
    "pending", pending and "1" or "")
  if #a.divisions > 0 then
    redis.call("HSET", base .. "account:" .. a.name, "divisions", cmsgpack.pack(a.divisions))
  end
  redis.call("ZADD", base .. "accounts", 0, a.name)
end

-- The fields of the tenant's record as numbers, before this script has changed them.
local tenant_fields
local function tenant()
  if not tenant_fields then
    local f = record
    tenant_fields = {
      mode = f[1], seq = tonumber(f[2] or 0), holds = tonumber(f[3] or 0), uncharged_until_ms = tonumber(f[4] or 0),
      stored = f[5], state = f[6] or "active",
    }
  end
  return tenant_fields
end

-- Whether the tenant is closing or closed. Then nothing more is stored for it, also by requests that began before.
local function has_ended()
  return tenant().state == "closing" or tenant().state == "closed"
end

-- Appends one journal entry for a transition. Sequence numbers are consecutive, so a lost entry leaves a visible gap.
-- `amounts` is the JSON text of a list of rows {unit, subject, vector} of the tenant's own accounts. `subjects` is the
-- JSON text of such rows of subjects' accounts, or the SHA-256 of that text for a transition that spends nothing, or ""
-- if there are none. The rows of an `open` entry also contain the account's other terms. `key` is the id of the API key
-- that caused the release, and `route` the route that it was sent to, or "". `words` lists what the request says of the
-- release, names and values, or is nil. `holds` is the change of the tenant's number of open holds. `field` and `value`
-- are written to the tenant's record in the same command, if they are given. Returns the number of the entry.
local function journal(transition, release, mechanism, reason, amounts, subjects, key, route, words, holds, field, value)
  local t = tenant()
  t.seq, t.holds = t.seq + 1, t.holds + holds
  local seq, open = text(t.seq), text(t.holds)
  local further = words or {}
  if subjects ~= "" then -- most tenants have no subjects
    further = { "subjects", subjects, unpack(further) }
  end
  redis.call("XADD", base .. "journal", seq .. "-0", "transition", transition, "release", release,
    "mechanism", mechanism, "reason", reason, "at_ms", text(now), "amounts", amounts, "key", key, "route", route,
    unpack(further))
  if field then
    redis.call("HSET", KEYS[1], "seq", seq, "holds", open, field, value)
  else
    redis.call("HSET", KEYS[1], "seq", seq, "holds", open)
  end
  return seq
end

-- Adds entry `seq` to the index of each subject in `rows`. The index lists the entries in which a subject has rows.
local function index_entry(seq, rows)
  local seen = {}
  for _, row in ipairs(rows) do
    local subject = row[2]
    if subject ~= "" and not seen[subject] then
      seen[subject] = true
      redis.call("ZADD", base .. "entries:" .. subject, seq, seq)
    end
  end
end

-- Returns the JSON texts of the rows of the tenant's own accounts and of subjects' accounts.
local function rows_of(accounts, row)
  local own, subjects = {}, {}
  for _, a in ipairs(accounts) do
    local rows = a.subject == "" and own or subjects
    rows[#rows + 1] = row(a)
  end
  return "[" .. table.concat(own, ",") .. "]", #subjects > 0 and "[" .. table.concat(subjects, ",") .. "]" or ""
end

local function limit_text(limit)
  local numbers = {}
  for i, number in ipairs(limit) do
    numbers[i] = number == -1 and "-1" or text(number)
  end
  return "[" .. table.concat(numbers, ",") .. "]"
end

local function journal_openings(accounts)
  local own, subjects = rows_of(accounts, function(a)
    local divisions = {}
    for j, division in ipairs(a.divisions) do
      divisions[j] = limit_text(division)
    end
    return string.format("[%s,%s,%s,%s,%s,%s,%s,[%s]]", cjson.encode(a.unit), cjson.encode(a.subject),
      limit_text(a.limit), cjson.encode(a.adjacency), cjson.encode(a.guarantee), cjson.encode(a.orders),
      cjson.encode(a.plan), table.concat(divisions, ","))
  end)
  return journal("open", "", "", "", own, subjects, "", "", nil, 0)
end

-- Writes the limit of each of `accounts`, which its first release has selected, and records the change in the journal.
local function write_limits(accounts)
  local own, subjects = rows_of(accounts, function(a)
    return string.format("[%s,%s,%s]", cjson.encode(a.unit), cjson.encode(a.subject), limit_text(a.limit))
  end)
  journal("limit", "", "", "first-release", own, subjects, "", "", nil, 0)
  for _, a in ipairs(accounts) do
    redis.call("HSET", base .. "account:" .. a.name, "limit", cmsgpack.pack(a.limit))
  end
end

-- The tenant's limits on what costs no epsilon (`TenantCaps` in core/ledger/transitions.py).

-- A hold that is refunded, and a denial that is kept, use up one hour divided by the hourly number. The field
-- `uncharged_until_ms` is the end of the time used up so far.
local HOUR_MS = 3600000

local function uncharged_until()
  local step = math.ceil(HOUR_MS / integer(args.uncharged_per_hour_max))
  local until_ms = tenant().uncharged_until_ms
  if until_ms - now > HOUR_MS + integer(args.holds_max) * step then
    until_ms = now -- more than all open holds can use up: the clock of Redis was set back
  end
  return math.max(now, until_ms) + step
end

-- Returns the rows {end of a period, bytes of the responses that expire in it} of the periods that have not ended,
-- and the sum of the bytes. A row counts until the end of its period, so the sum is never too small.
local function stored_responses()
  local found, rows, total = tenant().stored, {}, 0
  for _, row in ipairs(found and cmsgpack.unpack(found) or {}) do
    if row[1] > now then
      rows[#rows + 1] = row
      total = total + row[2]
    end
  end
  return rows, total
end
