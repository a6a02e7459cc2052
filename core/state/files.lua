-- Which blobs belong to which name of an owner: packs, tuned models and artifacts. Python prepends stored.lua.
-- KEYS[1] is "{owner}:tenant" as in every script. args.action: put, remove or expire. All are replay-safe.
if args.action == "put" then
  local old = redis.call("HGET", base .. "files:" .. args.area, args.name)
  if old == args.entry then
    return answer({ outcome = "stored" })
  end
  if has_ended() then
    return answer({ outcome = "tenant-closed" })
  end
  expire_files()
  old = redis.call("HGET", base .. "files:" .. args.area, args.name) or nil
  if not bytes_fit(entry_bytes(args.entry) - entry_bytes(old), args.bytes_max) then
    return answer({ outcome = "full" })
  end
  put_file(args)
  return answer({ outcome = "stored", replaced = old })
end

if args.action == "remove" then
  expire_files() -- what has expired is gone
  return answer({ outcome = "removed", replaced = remove_file(args.area, args.name) or nil })
end

if args.action == "expire" then
  expire_files()
  return answer({ outcome = "expired" })
end
error("unknown action")
