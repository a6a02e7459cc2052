-- Writes a part of a ledger that is rebuilt from its archive, in the order of the commands in ARGV[2]: msgpack of a list of
-- {command, ...}. Only a Redis without a ledger is written to: the ledger's id, args.ledger_key, is written last.
if redis.call("GET", args.ledger_key) then
  return answer({ outcome = "has-ledger" })
end
for _, command in ipairs(cmsgpack.unpack(ARGV[2])) do
  redis.call(unpack(command))
end
return answer({ outcome = "written" })
