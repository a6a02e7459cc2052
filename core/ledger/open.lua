-- Opens a tenant and its accounts, all or nothing. The same operation again gets the same answer.
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
local accounts, amounts = {}, {}
for i, l in ipairs(args.limits) do
  accounts[i] = {
    name = l[1], unit = l[1], adjacency = l[2], subject = "",
    limit_epsilon = integer(l[3]), limit_delta = integer(l[4]),
  }
  amounts[i] = { l[1], "", l[3], l[4] }
end
local subject_limits = {}
if args.mode == "subject" then
  for _, l in ipairs(args.subject_limits) do
    subject_limits[#subject_limits + 1] = "subject_epsilon:" .. l[1]
    subject_limits[#subject_limits + 1] = text(integer(l[2]))
    subject_limits[#subject_limits + 1] = "subject_delta:" .. l[1]
    subject_limits[#subject_limits + 1] = text(integer(l[3]))
  end
end

journal("open", "", "", "", amounts)
redis.call("HSET", KEYS[1], "operation", args.operation, "mode", args.mode, "created_ms", now)
if #subject_limits > 0 then
  redis.call("HSET", KEYS[1], unpack(subject_limits))
end
for _, a in ipairs(accounts) do
  write_new_account(a)
end
return answer({ outcome = "opened" })
