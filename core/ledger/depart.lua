-- The ledger that a tenant leaves (core/ledger/move). args.action: take, wait, freeze, reopen or clean. Every action is
-- replay-safe. args.token names one run of the move, and args.target the other ledger: the fields `closing` and `away`
-- are "TOKEN:TARGET". Only the run whose token is there changes anything. A run that takes over replaces the token.
local FENCED = "999999" -- a schema that scripts of earlier versions refuse, which do not read `away`
local mine = args.token .. ":" .. args.target
local closing, away = record[7], record[8]

local function is_elsewhere(field)
  return field and string.match(field, ":(.+)$") ~= args.target
end

-- What keeps the tenant from leaving: open holds, those that no job owns, and unfinished jobs.
local function open_work(outcome)
  return answer({
    outcome = outcome, frozen = away and true or false, seq = tenant().seq, holds = tenant().holds,
    overdue = redis.call("ZCARD", base .. "overdue"), jobs = redis.call("ZCARD", base .. "jobs:open"),
  })
end

if not record[1] then
  return answer({ outcome = "unknown-tenant" })
end

if args.action == "take" then
  if record[9] then
    return answer({ outcome = "arriving" })
  end
  if is_elsewhere(closing) or is_elsewhere(away) then
    return answer({ outcome = "other-target" })
  end
  if args.only_moving and not (closing or away) then
    return open_work("open")
  end
  redis.call("HSET", KEYS[1], away and "away" or "closing", mine)
  return open_work("taken")
end

if args.action == "wait" then
  return open_work((away or closing) == mine and "taken" or "lost")
end

if args.action == "freeze" then
  if away == mine then
    return open_work("frozen") -- a retry of the same call, whose reply was lost
  end
  if away or closing ~= mine then
    return answer({ outcome = "lost" })
  end
  if tenant().holds > 0 or redis.call("ZCARD", base .. "overdue") + redis.call("ZCARD", base .. "jobs:open") > 0 then
    return open_work("busy")
  end
  journal("depart", "", "", args.target, "[]", "", "", "", 0, "away", mine)
  redis.call("HSET", KEYS[1], "schema", FENCED, "schema_before", record[6] or "")
  redis.call("HDEL", KEYS[1], "closing")
  return open_work("frozen")
end

if args.action == "reopen" then
  if away == mine then
    journal("arrive", "", "", args.target, "[]", "", "", "", 0)
    local before = redis.call("HGET", KEYS[1], "schema_before")
    redis.call("HDEL", KEYS[1], "away", "schema", "schema_before")
    if before and before ~= "" then
      redis.call("HSET", KEYS[1], "schema", before)
    end
  elseif closing == mine then
    redis.call("HDEL", KEYS[1], "closing")
  elseif closing or away then
    return answer({ outcome = "lost" })
  end
  return answer({ outcome = "open" })
end

if args.action == "clean" then -- removes what only serves requests; the evidence stays
  if away ~= mine or record[9] then
    return answer({ outcome = "lost" }) -- or the tenant comes back
  end
  for _, key in ipairs(args.keys) do
    local name = string.sub(key, 1, #base) == base and string.sub(key, #base + 1)
    if not name or name == "tenant" or name == "journal" or name == "accounts" or name == "api-keys"
      or string.sub(name, 1, 8) == "account:" or string.sub(name, 1, 6) == "limit:" then
      error("a key that stays")
    end
  end
  for _, key in ipairs(args.keys) do
    redis.call("UNLINK", key)
  end
  return answer({ outcome = "cleaned" })
end
error("unknown action")
