-- Opens a tenant and its accounts, all or nothing. Repeating the same operation returns the same answer.
local opened_by = redis.call("HGET", KEYS[1], "operation")
if opened_by then
  if opened_by == args.operation then
    return answer({ outcome = "opened" })
  end
  return answer({ outcome = "tenant-exists" })
end
if args.mode ~= "tenant" and args.mode ~= "subject" then
  error("unknown mode")
end
local accounts = {}
for i, terms in ipairs(args.accounts) do
  accounts[i] = new_account(terms)
end
for _, terms in ipairs(args.subject_accounts) do
  new_account(terms) -- raises an error for invalid terms
end

journal_openings(accounts)
redis.call("HSET", KEYS[1], "operation", args.operation, "mode", args.mode, "created_ms", text(now))
for _, terms in ipairs(args.subject_accounts) do
  redis.call("HSET", KEYS[1], "subject:" .. terms[1], cmsgpack.pack(terms))
end
for _, a in ipairs(accounts) do
  write_new_account(a)
end
return answer({ outcome = "opened" })
