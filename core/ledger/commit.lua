-- Moves a hold to committed and stores the encrypted response (ARGV[2], "" for none) for args.retention_ms.
-- The response of a release without an idempotency key is not stored, because nothing can replay it. The response to a
-- generated key is stored while the tenant's stored responses have space; `reserve` ensured this for a caller's key.
local retention, bytes_max = ARGV[2] ~= "" and integer(args.retention_ms), integer(args.stored_bytes_max)
local stores = false
local settled = settle("commit", "committed", true, function(r)
  local rows, total = stored_responses()
  stores = retention and r.scope ~= "" and not (r.generated and total + #ARGV[2] > bytes_max)
  if not stores then
    return nil
  end
  local period = math.ceil(retention / 8)
  local ends = math.ceil((now + retention) / period) * period
  if #rows > 0 and rows[#rows][1] == ends then
    rows[#rows][2] = rows[#rows][2] + #ARGV[2]
  else
    rows[#rows + 1] = { ends, #ARGV[2] }
  end
  return "stored", cmsgpack.pack(rows)
end)
if stores then
  redis.call("SET", base .. "response:" .. args.release, ARGV[2], "PX", retention)
end
return settled
