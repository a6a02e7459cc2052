-- A limit that several gateways share: tokens that they lease in small batches. KEYS[1] is the limit's record, a string
-- that ends when it would be full again. It limits load, not privacy loss.
-- args: id, of the gateway. seq: of this request; a repeated one gets the same answer. capacity: the tokens of a full
-- limit. per_minute: how many are refilled; 0 for a pool, whose tokens come back from those who held them.
-- back: leased tokens that the gateway returns. owed: tokens that it used without a lease. held: tokens that it still has.
-- want: tokens that it asks for. ttl_ms: after this time without a request, what a gateway holds counts no more.
local capacity, per_minute = integer(args.capacity), integer(args.per_minute)
local found = redis.call("GET", KEYS[1])
local record = found and cmsgpack.unpack(found) or { tokens = capacity, at = now, gateways = {} }
local mine = record.gateways[args.id]
if mine and mine.seq == args.seq then
  return answer({ outcome = "leased", leased = mine.leased, left = tostring(mine.left) })
end

local held, sharing = integer(args.held), 1
for id, other in pairs(record.gateways) do
  if other.at + args.ttl_ms < now then
    record.gateways[id] = nil
  elseif id ~= args.id then
    held = held + other.held
    sharing = sharing + 1
  end
end
if per_minute > 0 then
  local passed = math.max(0, now - record.at) -- the clock of Redis may be set back
  local tokens = record.tokens + integer(args.back) - integer(args.owed) + passed * per_minute / 60000
  record.tokens = math.min(tokens, capacity - held)
else
  record.tokens = capacity - held
end
record.at = now
local leased = 0
if record.tokens >= 1 then
  -- what is left is divided by those who share it, so that none of them takes all
  leased = math.min(integer(args.want), math.max(1, math.floor(record.tokens / sharing)))
end
record.tokens = record.tokens - leased
record.gateways[args.id] = { seq = args.seq, at = now, held = args.held + leased, leased = leased, left = record.tokens }
local full_ms = per_minute > 0 and math.ceil((capacity - record.tokens) * 60000 / per_minute) or 0
redis.call("SET", KEYS[1], cmsgpack.pack(record), "PX", text(math.max(full_ms, 0) + 2 * args.ttl_ms))
return answer({ outcome = "leased", leased = leased, left = tostring(record.tokens) })
