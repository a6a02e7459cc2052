-- State machine of one job: queued -> running -> succeeded | failed | cancelled. A final state never changes.
-- KEYS[1] is "{owner}:tenant" as in every script. The script accesses the keys "{owner}:job..." and the keys that
-- settling a hold needs, and no others.
-- args.action: create, take, back, renew, progress, checkpoint, hold, charge, refund, seal, finish, pause, resume or
-- cancel. Every action is replay-safe: repeating it returns the same answer. `seq` increases with every change that a
-- listener can observe.
--
-- `run` is the fence: a random name of one attempt. Every change by an attempt requires that the job is running and
-- that `run` holds it. An attempt that another one has replaced changes nothing any more. `lease_ms` is when, on the
-- clock of Redis, another gateway may replace the attempt; the holder renews it. `state` names the manifest of the
-- job's files in the blob store, and `bytes` is their size. `attempts` counts the starts, `proven` those before the last
-- attempt that got further than all others: only the starts since then count towards the most that a job may have.
--
-- `outcome` names the blob of the outcome that the job publishes. "seal" sets it once, for the attempt that holds the job.
-- From then on no attempt draws noise: each one publishes that outcome, also after the last attempt that a job may have.
--
-- A job that charges owns the hold `release`. When the job is created, the hold leaves the list of holds that expire.
-- From then on only this script settles the hold, atomically with the change of the job's record. "charge" spends the
-- hold before any noise is drawn. A job that ends without a charge refunds it. Python prepends settle.lua and stored.lua.
--
-- A job that is charged in parts owns a hold for each part. "{owner}:job:<id>:holds" maps the number of a part to its
-- open hold and the hold's amount, or to "spent". "hold" adds one, "charge" spends one and "refund" ends one, each by
-- itself: a hold may debit a thousand accounts. `open_holds` counts those that are open. A job with an open hold does
-- not end; an attempt refunds its holds first, also that of a job which was cancelled while it waited.
--
-- A job that `keeps` publishes what it has done also if it fails or is cancelled. Once it has started, an attempt ends it.
local CANCEL_GRACE_MS = 60000 -- a live holder carries out a cancel request within seconds
local key = base .. "job:" .. args.job
local holds_key = key .. ":holds"

local function read()
  local flat, job = redis.call("HGETALL", key), {}
  for i = 1, #flat, 2 do
    job[flat[i]] = flat[i + 1]
  end
  return job
end

local function write(fields)
  local flat = { "seq", text((redis.call("HGET", key, "seq") or 0) + 1) }
  for name, value in pairs(fields) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  redis.call("HSET", key, unpack(flat))
end

local function respond(outcome)
  return answer({ outcome = outcome, job = read() })
end

-- Whether the job's hold is in `state` after this call, settled by this call or by an earlier identical one.
local function settled(job, transition, state, spends)
  args.release, args.reason = job.release, "job"
  return cmsgpack.unpack(settle(transition, state, spends)[1]).outcome == state
end

-- The answer for a hold that is not open any more; nil for one that is.
local function ended_hold()
  local hold = read_release(args.release)
  if not (hold and hold.state == "held") then
    return answer({ outcome = "not-open", state = hold and hold.state or "unknown" })
  end
end

local function own_hold()
  redis.call("ZREM", base .. "overdue", args.release) -- a job may wait for hours, so the job settles the hold
end

-- Adds an amount {epsilon, delta} to a field of the job, with a sign.
local function plus(field, amount, sign)
  local epsilon, delta = string.match(field, "(%d+) (%d+)")
  return text(epsilon + sign * amount[1]) .. " " .. text(delta + sign * amount[2])
end

-- Returns the open hold of a part: its release, and its amount {epsilon, delta}; nil if none is open.
local function open_hold(part)
  local release, epsilon, delta = string.match(redis.call("HGET", holds_key, part) or "", "(%x+) (%d+) (%d+)")
  return release, { tonumber(epsilon), tonumber(delta) }
end

local function finish(status, problem, result)
  local before = read()
  local ends = { status = status, problem = problem, result = result, ended_ms = text(now), reserved = "0 0" }
  if before.release and before.spent == "0 0" and not settled(before, "cancel", "cancelled", false) then
    ends.spent = before.reserved -- the hold was spent by another call: do not report it as a refund
  end
  write(ends)
  redis.call("HDEL", key, "lease_ms")
  count_bytes(-tonumber(before.bytes))
  redis.call("HDEL", key, "bytes")
  redis.call("ZREM", base .. "jobs:open", args.job)
  redis.call("PEXPIRE", key, text(args.retention_ms))
  redis.call("PEXPIRE", holds_key, text(args.retention_ms))
end

-- Removes the list entries of jobs whose records have expired, oldest first. Each creation prunes up to 100 entries.
local function prune()
  for _, member in ipairs(redis.call("ZRANGEBYLEX", base .. "jobs", "(" .. args.prune_after, "+", "LIMIT", 0, 100)) do
    if redis.call("EXISTS", base .. "job:" .. string.sub(member, 15)) == 0 then
      redis.call("ZREM", base .. "jobs", member)
    end
  end
end

-- Sets when another gateway may replace the attempt. No listener observes it, so `seq` stays.
local function renew()
  redis.call("HSET", key, "lease_ms", text(now + integer(args.lease_ms)))
end

local job = read()
if args.action == "create" then
  if job.status then
    if job.operation == args.operation then
      return respond("created") -- a retry of the same call, whose reply was lost
    end
    return respond(job.claim == args.claim and "exists" or "conflict")
  end
  if has_ended() then
    return answer({ outcome = "tenant-closed" })
  end
  local open = redis.call("ZRANGEBYSCORE", base .. "jobs:open", "-inf", "+inf", "LIMIT", 0, args.open_max)
  if #open >= args.open_max then
    return answer({ outcome = "quota" })
  end
  args.prune_after = string.format("%013d", 10 ^ 13 - now + integer(args.retention_ms))
  prune()
  if redis.call("ZCARD", base .. "jobs") >= integer(args.jobs_max) then
    return answer({ outcome = "too-many" })
  end
  expire_files()
  if not bytes_fit(args.bytes, args.bytes_max) then
    return answer({ outcome = "full" })
  end
  local ended = args.release and ended_hold()
  if ended then
    return ended
  end
  write({
    kind = args.kind, label = args.label, status = "queued", stage = "queued", progress = "0", gateway = args.gateway,
    claim = args.claim, operation = args.operation, created_ms = text(now), attempts = "0", reserved = args.reserved, spent = "0 0", run = "",
    release = args.release, state = args.state, bytes = text(args.bytes), keeps = args.keeps,
  })
  count_bytes(args.bytes)
  if args.release then
    own_hold()
  end
  redis.call("ZADD", base .. "jobs:open", text(now), args.job)
  redis.call("ZADD", base .. "jobs", 0, string.format("%013d", 10 ^ 13 - now) .. "-" .. args.job)
  return respond("created")
end

if not job.status then
  return answer({ outcome = "unknown" })
end
local held = job.status == "running" and job.run == args.run
local holds = tonumber(job.open_holds or "0")
local owes = holds > 0 or job.keeps and job.started_ms -- an end that only an attempt carries out

if args.action == "take" then
  if job.status == "paused" then
    return respond("elsewhere")
  end
  if job.status ~= "queued" and job.status ~= "running" or held then
    return respond(held and "taken" or "ended")
  end
  if job.status == "running" and job.gateway ~= args.gateway and tonumber(job.lease_ms or "0") > now then
    return respond("elsewhere") -- its holder is alive
  end
  if job.status == "running" and job.pause_ms and not job.cancel_ms then -- its holder died before it could pause it
    write({ status = "paused", stage = "paused", run = "" })
    return respond("elsewhere")
  end
  if not owes and job.cancel_ms then
    finish("cancelled")
    return respond("ended")
  end
  if not owes and not job.outcome and tonumber(job.attempts) - tonumber(job.proven or "0") >= args.attempts_max then
    finish("failed", args.exhausted)
    return respond("ended")
  end
  write({
    status = "running", stage = "starting", run = args.run, attempts = text(job.attempts + 1),
    started_ms = job.started_ms or text(now), gateway = args.gateway,
  })
  renew()
  return respond("taken")
end

if args.action == "back" then -- in order, so the attempt does not count
  if held then
    local status = job.pause_ms and not job.cancel_ms and "paused" or "queued"
    write({ status = status, stage = status, run = "", attempts = text(job.attempts - 1) })
    redis.call("HDEL", key, "lease_ms")
  end
  return respond("back")
end

if args.action == "renew" then
  if held then
    renew()
  end
  return respond(held and "held" or "lost")
end

if args.action == "checkpoint" then -- the next attempt continues from these files
  if held and job.state ~= args.state then
    redis.call("HSET", key, "state", args.state, "bytes", text(args.bytes))
    count_bytes(args.bytes - tonumber(job.bytes))
  end
  return respond(held and "held" or "lost")
end

if args.action == "progress" then
  local metrics = args.metrics or job.metrics
  if held and (job.stage ~= args.stage or job.progress ~= args.progress or job.metrics ~= metrics) then
    local further = tonumber(args.progress) > tonumber(job.progress) -- than any attempt before
    write({
      stage = args.stage, progress = args.progress, metrics = metrics,
      proven = further and text(job.attempts - 1) or job.proven,
    })
  end
  return respond(held and "held" or "lost")
end

if args.action == "hold" then -- the job owns this hold from now on
  local kept = redis.call("HGET", holds_key, args.part)
  if kept then
    return respond(string.find(kept, args.release, 1, true) and "owned" or "other")
  end
  if not held or job.cancel_ms then
    return respond("refused")
  end
  local ended = ended_hold()
  if ended then
    return ended
  end
  local amount = { integer(args.epsilon), integer(args.delta) }
  write({ reserved = plus(job.reserved, amount, 1), open_holds = text(holds + 1) })
  redis.call("HSET", holds_key, args.part, args.release .. " " .. text(amount[1]) .. " " .. text(amount[2]))
  own_hold()
  return respond("owned")
end

if args.action == "charge" and args.part then -- the last step before any noise of this part is drawn
  if redis.call("HGET", holds_key, args.part) == "spent" then
    return respond(held and "charged" or "refused")
  end
  local release, amount = open_hold(args.part)
  if not held or job.cancel_ms or not release then
    return respond("refused")
  end
  if not settled({ release = release }, "commit", "committed", true) then
    return answer({ outcome = "not-open", state = "unknown" })
  end
  write({ reserved = plus(job.reserved, amount, -1), spent = plus(job.spent, amount, 1), open_holds = text(holds - 1) })
  redis.call("HSET", holds_key, args.part, "spent")
  return respond("charged")
end

if args.action == "refund" then -- of a part that was not begun
  local release, amount = open_hold(args.part)
  if held and release then
    local refunded = settled({ release = release }, "cancel", "cancelled", false)
    write({
      reserved = plus(job.reserved, amount, -1), open_holds = text(holds - 1),
      spent = refunded and job.spent or plus(job.spent, amount, 1),
    })
    redis.call("HSET", holds_key, args.part, refunded and "refunded" or "spent")
  end
  return respond(held and "held" or "lost")
end

if args.action == "charge" then -- the last step before any noise is drawn
  if not held or job.cancel_ms and job.spent == "0 0" then
    return respond("refused")
  end
  if job.spent == "0 0" then
    if not settled(job, "commit", "committed", true) then
      return answer({ outcome = "not-open", state = "unknown" })
    end
    write({ reserved = "0 0", spent = job.reserved })
  end
  return respond("charged")
end

if args.action == "seal" then -- of all outcomes that attempts have stored, this one is published
  if held and not job.outcome then
    redis.call("HSET", key, "outcome", args.sealed)
  end
  return respond(held and "held" or "lost")
end

if args.action == "finish" then
  local replaced = {}
  if held and holds > 0 then
    error("a job with open holds does not end")
  end
  if held then
    finish(args.status, args.problem, args.result)
    if args.status == "succeeded" then
      redis.call("HSET", key, "progress", "1", "stage", "done")
    end
    for _, file in ipairs(args.files or {}) do
      replaced[#replaced + 1] = put_file(file) or nil
    end
  end
  local finished = held or job.run == args.run and job.status == args.status -- a retry, whose reply was lost
  return answer({ outcome = finished and "finished" or "lost", job = read(), replaced = replaced })
end

if args.action == "pause" then
  if job.status == "queued" then
    write({ status = "paused", stage = "paused", pause_ms = text(now) })
  elseif job.status == "running" and not job.pause_ms then
    write({ pause_ms = text(now) })
  end
  return respond("pausing")
end

if args.action == "resume" then
  if job.pause_ms then
    redis.call("HDEL", key, "pause_ms")
    write(job.status == "paused" and { status = "queued", stage = "queued" } or {})
  end
  return respond("resumed")
end

if args.action == "cancel" then
  local waits = job.status == "queued" or job.status == "paused"
  if waits and not owes then
    finish("cancelled")
  elseif waits and not job.cancel_ms then -- the next attempt carries out the end
    write({ cancel_ms = text(now), status = "queued", stage = "queued" })
  elseif job.status == "running" and not job.cancel_ms then
    write({ cancel_ms = text(now) })
  elseif job.status == "running" and not owes and now - job.cancel_ms >= CANCEL_GRACE_MS then
    finish("cancelled") -- the holder is presumed dead; if it resumes, it finds the job ended
  end
  return respond("cancelling")
end
error("unknown action")
