-- Moves a hold to committed and stores the encrypted response (ARGV[2], "" for none) for args.retention_ms.
-- The response of a release without an idempotency key is not stored, because nothing can replay it.
local retention = ARGV[2] ~= "" and integer(args.retention_ms)
local settled, scope = settle("commit", "committed", true)
if retention and scope and scope ~= "" then
  redis.call("SET", base .. "response:" .. args.release, ARGV[2], "PX", retention)
end
return settled
