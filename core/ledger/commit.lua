-- Moves a hold to committed and stores the encrypted response (ARGV[2], "" for none) for args.retention_ms.
-- The response of a release without an idempotency key is not stored, because nothing can replay it. The response to a
-- generated key is stored while the tenant's stored responses have space; `reserve` ensured this for a caller's key.
local retention = ARGV[2] ~= "" and integer(args.retention_ms)
local bytes_max = integer(args.stored_bytes_max)
local rows, total = stored_responses()
local settled, r = settle("commit", "committed", true)
if retention and r and r.scope ~= "" and not (r.generated and total + #ARGV[2] > bytes_max) then
  redis.call("SET", base .. "response:" .. args.release, ARGV[2], "PX", retention)
  local period = math.ceil(retention / 8)
  local ends = math.ceil((now + retention) / period) * period
  if #rows > 0 and rows[#rows][1] == ends then
    rows[#rows][2] = rows[#rows][2] + #ARGV[2]
  else
    rows[#rows + 1] = { ends, #ARGV[2] }
  end
  for _, row in ipairs(rows) do
    ends = math.max(ends, row[1]) -- a retention that was shortened leaves later periods
  end
  redis.call("SET", base .. "stored", cmsgpack.pack(rows), "PX", ends - now)
end
return settled
