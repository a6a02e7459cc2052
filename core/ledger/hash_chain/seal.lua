-- Reads and extends the chain of seals. KEYS[1] is the chain, a stream. The script accesses no key of a tenant.
-- args.heads: list of {tenant, head, last entry, segment}. The segments are an index of which seal contains an entry; ""
-- for a head that changes without new entries. -- Without args.body it returns the last seal and the head of every tenant, or "same" if the caller's known seal is
-- still the last. With args.body it appends seal args.n if the last seal is still (args.after_n, args.after_mac).
-- With args.fence it appends only while the lease of the duties (lease.lua) has this fencing number.
local base_key = string.sub(KEYS[1], 1, -6) -- without "chain"
local heads_key = base_key .. "heads"
local last = redis.call("XREVRANGE", KEYS[1], "+", "-", "COUNT", 1)[1]
local n, mac, body = "0", "", ""
if last then
  n = string.match(last[1], "^%d+")
  for i = 1, #last[2], 2 do
    if last[2][i] == "mac" then
      mac = last[2][i + 1]
    elseif last[2][i] == "body" then
      body = last[2][i + 1]
    end
  end
end

if not args.body then
  if n == args.known_n and mac == args.known_mac then
    return answer({ outcome = "same" })
  end
  return answer({ outcome = "head", n = n, mac = mac, body = body, heads = redis.call("HGETALL", heads_key) })
end

if n == args.n and mac == args.mac then
  return answer({ outcome = "sealed" }) -- a retry of the same attempt, whose reply was lost
end
if args.fence and redis.call("HGET", base_key .. "duties", "fence") ~= args.fence then
  return answer({ outcome = "fenced" }) -- the lease has ended or has another holder
end
if n ~= args.after_n or mac ~= args.after_mac then
  return answer({ outcome = "overtaken" })
end
redis.call("XADD", KEYS[1], args.n .. "-0", "body", args.body, "mac", args.mac)
for _, head in ipairs(args.heads) do
  redis.call("HSET", heads_key, head[1], head[2])
  if head[4] ~= "" then
    redis.call("ZADD", base_key .. "segments:" .. head[1], head[3], head[4])
  end
end
return answer({ outcome = "sealed" })
