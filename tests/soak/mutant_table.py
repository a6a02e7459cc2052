"""The seeded bugs: what goes wrong, in which script, and how its text changes."""

from soak.gateway_mutants import GATEWAYS
from soak.mutant import bug

_WRITE_HELD = 'redis.call("HSET", base .. "account:" .. a.name, "held", held[i])'
_WRITE_CLAIM = 'redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "release", args.release, "ended", "")'
_WRITE_OVERDUE = 'redis.call("ZADD", base .. "overdue", deadline, args.release)'
_WRITE_DENIED = 'redis.call("HSET", claim_key, "fingerprint", args.fingerprint, "denied", denial)'
_UNKNOWN_ACCOUNT = 'if not a then\n    return answer({ outcome = "unknown-account" })\n  end'
_OTHER_PLAN = 'if a.plan ~= "" and a.plan ~= args.accounts[i][2] and a.plan ~= args.accounts[i][3] then'
_DENY = "elseif not fits[i] and not refused"
_RESERVE_JOURNAL = (
    'journal("reserve", args.release, args.mechanism, "", ARGV[2], args.digest, args.key, args.route, args.words, 1)'
)
_SETTLE_JOURNAL = "local seq = journal(transition, args.release, r.mechanism, args.reason, r.amounts,"
_SETTLED_SUBJECTS = "spends and r.subject_rows or r.digest,"
_KEPT_CLAIM = "own_key and tombstone_ttl or generated_ttl)"
_KEPT_RELEASE = "local kept_ms = math.min(RETRIED_FOR_MS, tombstone_ttl)"
_ENDED_CLAIM = 'redis.call("HSET", claim_key, "ended", state)'
_GENERATED_TTL = "spends and integer(args.generated_ttl_ms or tombstone_ttl) or 0"
_NOT_HELD = 'if r.state ~= "held" then'
_HELD_AFTER = "sum(cmsgpack.unpack(f[2]), debit[3], -1)"
_HELD_BEFORE = "cmsgpack.unpack(f[2])"
_TAKE_HOLD = f"local held = {_HELD_AFTER}"
_SPEND = "a.committed = cmsgpack.pack(sum(cmsgpack.unpack(f[1]), debit[3], 1))"
_REFUND = "cmsgpack.pack(sum(cmsgpack.unpack(f[1]), debit[3], -1))"
_WRITE_REFUND = 'redis.call("HSET", a.key, "held", a.held)'
_OUT_OF_RANGE = 'if number < 0 or number > LARGEST then\n      error("a counter'
_ONLY_BASIC_ADMITS = 'if not admits(divisions[division], "", cost) and admits(divisions[BASIC], "", cost) then'
_LIMIT_JOURNAL = 'journal("limit", "", "", "first-release", own, subjects, "", "", nil, 0)'
_WRITE_LIMIT = 'redis.call("HSET", base .. "account:" .. a.name, "limit", cmsgpack.pack(a.limit))'
_NOT_CANCELLED = 'if state ~= "cancelled"'
_ENDED = "if r.state == state"
_COUNT_UNCHARGED = 'redis.call("HSET", KEYS[1], "uncharged_until_ms", text(uncharged_until()))'
_WRITE_SEGMENT = 'redis.call("ZADD", base_key .. "segments:" .. head[1], head[3], head[4])'
_WRITE_OPENED = 'redis.call("HSET", base .. "account:" .. a.name, "pending", "")'
_FORGET_CLAIM = 'redis.call("PEXPIRE", claim_key, tombstone_ttl)'
_FORGET = "local tombstone = { state = state, at_ms = text(now) }"

ADMISSION = (
    bug("limit-not-checked", "reserve", ("fits[i] = admits(a.limit, a.plan, total)", "fits[i] = true")),
    bug("basic-epsilon-strict", "reserve", ("total[EPSILON] <= limit[EPSILON]", "total[EPSILON] < limit[EPSILON]")),
    bug("basic-epsilon-one-too-many", "reserve", ("<= limit[EPSILON] and", "<= limit[EPSILON] + 1 and")),
    bug("basic-delta-unchecked", "reserve", (" and total[DELTA] <= limit[DELTA] then", " then")),
    bug("basic-open-for-the-unpriced", "reserve", ("total[NO_EPSILON] == 0 and total[EPSILON]", "total[EPSILON]")),
    bug("whitehouse-open-for-the-unpriced", "reserve", ("total[NO_SQUARE] == 0 and total[SQUARE]", "total[SQUARE]")),
    bug("whitehouse-always", "reserve", ("total[SQUARE] <= limit[SQUARE]", "limit[SQUARE] >= 0")),
    bug("whitehouse-missing", "reserve", ("total[SQUARE] <= limit[SQUARE]", "false")),
    bug("renyi-open-for-the-unpriced", "reserve", ("if total[NO_RHO] == 0 then", "if true then")),
    bug(
        "renyi-compared-with-its-neighbour", "reserve", ("limit[i] then", "limit[i + 1 <= #limit and i + 1 or i] then")
    ),
    bug("renyi-first-order-forgotten", "reserve", ("for i = NO_RHO + 1, #limit do", "for i = NO_RHO + 2, #limit do")),
    bug("renyi-last-order-forgotten", "reserve", ("i = NO_RHO + 1, #limit do", "i = NO_RHO + 1, #limit - 1 do")),
    bug("plan-admits-one-more", "reserve", ("total[COUNT] <= limit[COUNT]", "total[COUNT] <= limit[COUNT] + 1")),
    bug("plan-admits-one-less", "reserve", ("total[COUNT] <= limit[COUNT]", "total[COUNT] < limit[COUNT]")),
    bug("plan-signature-unchecked", "reserve", (_OTHER_PLAN, "if false then")),
    bug("plan-for-the-worst-noise-refuses-better", "reserve", (" and a.plan ~= args.accounts[i][3] then", " then")),
    bug("division-not-chosen", "reserve", ("a.limit = limit --", "--")),
    bug("division-never-written", "reserve", ("if #divided > 0 then", "if false then")),
    bug("gaussian-releases-divided-as-pure", "reserve", ("cost[NO_SQUARE] > 0 and GAUSSIAN", "false and GAUSSIAN")),
    bug("basic-releases-divided-as-pure", "reserve", ("cost[NO_RHO] > 0 and BASIC", "false and BASIC")),
    bug("division-of-the-kind-alone", "reserve", (_ONLY_BASIC_ADMITS, "if false then")),
    bug("division-for-basic-always", "reserve", (_ONLY_BASIC_ADMITS, "if true then")),
    bug("division-chosen-while-in-use", "common", (" and a.committed[COUNT] + a.held[COUNT] == 0 then", " then")),
    bug("division-chosen-beside-a-hold", "common", ("a.committed[COUNT] + a.held[COUNT] ==", "a.committed[COUNT] ==")),
    bug("changed-limit-not-journalled", "common", (_LIMIT_JOURNAL, "")),
    bug("changed-limit-not-written", "common", (_WRITE_LIMIT, "")),
    bug("divisions-not-read", "accounts", ("a.offered and cmsgpack.unpack(a.offered) or {}", "{}")),
    bug("holds-do-not-count", "reserve", ("a.committed[j] + a.held[j] + number", "a.committed[j] + number")),
    bug("committed-does-not-count", "reserve", ("a.committed[j] + a.held[j] + number", "a.held[j] + number")),
    bug("full-counter-not-reported", "reserve", ("overflow = overflow or total[j] > LARGEST", "overflow = false")),
    bug("only-the-first-account-checked", "reserve", (_DENY, "elseif i == 1 and not fits[i] and not refused")),
    bug("quota-unchecked-in-subject-mode", "reserve", (_DENY, f'{_DENY} and (mode == "tenant" or subject ~= "")')),
    bug("subject-unchecked-in-subject-mode", "reserve", (_DENY, f'{_DENY} and subject == ""')),
    bug(
        "subject-limit-is-the-tenants",
        "reserve",
        ("terms[2] = subject\n", "terms[2] = subject\n      terms[7] = read_account(unit).limit\n"),
    ),
    bug("subject-may-be-missing", "reserve", ('and args.subjects ~= "all" then', 'and args.subjects == "none" then')),
    bug("subject-accepted-in-tenant-mode", "reserve", ('mode == "tenant" and args.subjects ~= "none"', "false")),
    bug(
        "missing-account-is-a-fresh-budget",
        "reserve",
        (
            _UNKNOWN_ACCOUNT,
            "if not a then\n"
            '    a = new_account({ unit, subject, "", "0 0", "", "", { 0, 5000000000, 0, 0, 0, 0, 0 } })\n'
            "    opened[#opened + 1] = a\n  end",
        ),
    ),
    bug("an-account-debited-twice", "reserve", ("if seen[a.name] then", "if false then")),
    bug("estimate-admits-everything", "reserve", ("fits = fits }", "fits = { true, true, true, true } }")),
)

IDEMPOTENCY = (
    bug("own-hold-not-recognised", "reserve", ("local own = read_release(args.release)", "local own = nil")),
    bug("claim-not-written", "reserve", (_WRITE_CLAIM, "")),
    bug("claim-vanishes-while-held", "reserve", (_WRITE_CLAIM, f"{_WRITE_CLAIM}\n  {_FORGET_CLAIM}")),
    bug("claimed-again-without-persist", "reserve", ('redis.call("PERSIST", claim_key)', "")),
    bug("fingerprint-not-compared", "reserve", ("if claim[1] ~= args.fingerprint then", "if false then")),
    bug("denied-key-not-remembered", "reserve", (_WRITE_DENIED, "")),
    bug("denied-key-never-forgotten", "reserve", (_FORGET_CLAIM, "")),
    bug("denied-key-is-gone", "reserve", ("return { claim[3] } --", 'return answer({ outcome = "gone" }) --')),
    bug(
        "in-flight-key-holds-again",
        "reserve",
        ('if state == "held" then', "if false then"),
        (_NOT_CANCELLED, f'{_NOT_CANCELLED} and state ~= "held"'),
    ),
    bug("committed-key-draws-again", "reserve", (_NOT_CANCELLED, f'{_NOT_CANCELLED} and state ~= "committed"')),
    bug("spent-key-draws-again", "reserve", (_NOT_CANCELLED, f'{_NOT_CANCELLED} and state ~= "spent"')),
    bug(
        "replay-draws-again",
        "reserve",
        ("if response then", "if false then"),
        (_NOT_CANCELLED, f'{_NOT_CANCELLED} and state ~= "committed"'),
    ),
    bug("cancelled-key-is-gone", "reserve", (_NOT_CANCELLED, "if true")),
    bug("response-without-ttl", "commit", (', "PX", retention)', ")")),
    bug("response-stored-without-key", "commit", (' and r.scope ~= "" and not', " and not")),
    bug("response-not-stored", "commit", ("stores = retention and", "stores = false and")),
    bug("repeated-commit-replaces-the-response", "commit", ("if stores then", "if retention then")),
    bug("claim-outlives-its-tombstone", "settle", ("own_key and tombstone_ttl", "own_key and 1000 * tombstone_ttl")),
    bug("opened-twice", "open", ("if opened_by == args.operation then", "if true then")),
    bug("opened-anew", "open", ("if opened_by then", "if false then")),
)

SETTLEMENT = (
    bug("cancel-adds-the-hold", "settle", (_TAKE_HOLD, _TAKE_HOLD.replace("-1", "spends and -1 or 1"))),
    bug("cancel-keeps-the-hold", "settle", (_TAKE_HOLD, f"local held = spends and {_HELD_AFTER} or {_HELD_BEFORE}")),
    bug(
        "commit-keeps-the-hold", "settle", (_TAKE_HOLD, f"local held = not spends and {_HELD_AFTER} or {_HELD_BEFORE}")
    ),
    bug("commit-spends-nothing", "settle", (_SPEND, "a.committed = f[1]")),
    bug("commit-refunds", "commit", ('settle("commit", "committed", true,', 'settle("commit", "committed", false,')),
    bug("expire-refunds", "expire", ('settle("expire", "spent", true)', 'settle("expire", "spent", false)')),
    bug("cancel-spends", "cancel", ('settle("cancel", "cancelled", false)', 'settle("cancel", "cancelled", true)')),
    bug(
        "cancel-refunds-a-committed-release",
        "settle",
        (_NOT_HELD, 'if r.state ~= "held" and not (r.state == "committed" and transition == "cancel") then'),
        (
            _TAKE_HOLD,
            f'local held = r.state == "committed" and {_HELD_BEFORE} or {_HELD_AFTER}\n    '
            f'a.committed = r.state == "committed" and {_REFUND} or f[1]',
        ),
        (_WRITE_REFUND, _WRITE_REFUND.replace("a.held)", 'a.held, "committed", a.committed)')),
        (_FORGET, "local tombstone = r\n  r.state = state"),
    ),
    bug("late-commit-after-expire", "settle", (_ENDED, f'{_ENDED} or (state == "committed" and r.state == "spent")')),
    bug("late-cancel-after-expire", "settle", (_ENDED, f'{_ENDED} or (state == "cancelled" and r.state == "spent")')),
    bug("end-not-repeatable", "settle", ("if r.state == state then", "if false then")),
    bug("missing-account-is-skipped", "settle", ('error("the account of a hold is missing")', "break")),
    bug("only-the-first-account-settled", "settle", ("accounts[i] = a\n", "accounts[i] = a\n    do break end\n")),
    bug("overdue-entry-not-removed", "settle", ('redis.call("ZREM", base .. "overdue", args.release)', "")),
    bug("overdue-entry-not-written", "reserve", (_WRITE_OVERDUE, "")),
    bug("overdue-at-once", "reserve", ("text(now + integer(args.hold_ttl_ms))", "text(now)")),
    bug(
        "cancelled-release-in-the-history",
        "settle",
        (f"if spends then\n      {_SPEND}", f"if true then\n      {_SPEND}"),
        (_WRITE_REFUND, _WRITE_REFUND.replace("a.held)", 'a.held, "loss_x", a.loss_x, "loss_y", a.loss_y)')),
    ),
    bug("history-keeps-only-the-last", "settle", ("loss[i] and total[i] + loss[i]", "loss[i]")),
    bug("history-forgets-an-unknown-loss", "settle", ("loss[i] and total[i] + loss[i]", "total[i] + (loss[i] or 0)")),
    bug("history-calls-a-mixture-one-epsilon", "settle", ("if f[5] and f[5] ~= a.pure_epsilon then", "if false then")),
)

RECORDS = (
    bug("hold-not-written", "reserve", (_WRITE_HELD, "")),
    bug("hold-not-journalled", "reserve", (_RESERVE_JOURNAL, "")),
    bug("hold-journalled-without-amounts", "reserve", (_RESERVE_JOURNAL, _RESERVE_JOURNAL.replace("ARGV[2]", '"[]"'))),
    bug(
        "end-not-journalled",
        "settle",
        (_SETTLE_JOURNAL, 'local seq = select(2, "", redis.call("HGET", KEYS[1], "seq"),'),
    ),
    bug("end-journalled-as-commit", "settle", (_SETTLE_JOURNAL, _SETTLE_JOURNAL.replace("transition,", '"commit",'))),
    bug("hold-journalled-without-its-route", "reserve", ("args.key, args.route,", 'args.key, "",')),
    bug("end-journalled-without-its-route", "settle", ("r.key, r.route,", 'r.key, "",')),
    bug("hold-journalled-without-its-key", "reserve", (_RESERVE_JOURNAL, _RESERVE_JOURNAL.replace("args.key", '""'))),
    bug("end-journalled-without-its-key", "settle", ("r.key, r.route,", '"", r.route,')),
    bug("key-not-in-the-record", "reserve", ("key = args.key, ", "")),
    bug("subjects-of-a-hold-not-bound", "reserve", (_RESERVE_JOURNAL, _RESERVE_JOURNAL.replace("args.digest", '""'))),
    bug("subjects-of-a-hold-journalled", "reserve", ("args.digest, args.key", "args.subject_rows, args.key")),
    bug("spent-subjects-not-journalled", "settle", (_SETTLED_SUBJECTS, "r.digest,")),
    bug("refunded-subjects-journalled", "settle", (_SETTLED_SUBJECTS, "r.subject_rows or r.digest,")),
    bug("subjects-journalled-as-the-tenants", "common", ('a.subject == "" and own or subjects', "own")),
    bug("end-journalled-without-amounts", "settle", (_SETTLE_JOURNAL, _SETTLE_JOURNAL.replace("r.amounts", '"[]"'))),
    bug("subject-opening-not-journalled", "settle", ("journal_openings(opened), {}", '"1", {}')),
    bug("subject-opened-by-a-refund", "settle", ('if spends and f[6] == "1" then', 'if f[6] == "1" then')),
    bug("subject-opened-without-divisions", "settle", ("opened[#opened].offered or cmsgpack", "cmsgpack")),
    bug("subject-opened-with-each-release", "settle", (_WRITE_OPENED, "")),
    bug("subject-opened-by-a-hold", "reserve", ("write_new_account(a, true)", "write_new_account(a)")),
    bug("opening-not-in-the-index", "settle", ("index_entry(opening, rows)", "")),
    bug("spent-entry-not-in-the-index", "settle", ("index_entry(seq, r.debits)", "")),
    bug("refunds-in-the-index", "settle", ('if spends and r.subject_rows ~= "" then', "if true then")),
    bug("only-the-first-subject-in-the-index", "common", ("and not seen[subject] then", "and not next(seen) then")),
    bug("refunded-account-stays", "settle", ("elseif a.disappears then", "elseif false then")),
    bug("refunded-account-stays-listed", "settle", ('redis.call("ZREM", base .. "accounts", a.name)', "")),
    bug("account-disappears-with-other-holds", "settle", (" and held[COUNT] == 0", "")),
    bug("open-account-disappears", "settle", ('not spends and f[6] == "1" and held', "not spends and held")),
    bug("journal-number-skipped", "common", ("t.seq + 1, t.holds", "t.seq + 2, t.holds")),
    bug(
        "journal-number-not-raised",
        "common",
        (
            'if field then\n    redis.call("HSET", KEYS[1], "seq", seq,',
            'if field then\n    redis.call("HSET", KEYS[1],',
        ),
        ('\n  else\n    redis.call("HSET", KEYS[1], "seq", seq,', '\n  else\n    redis.call("HSET", KEYS[1],'),
    ),
    bug("account-not-indexed", "common", ('redis.call("ZADD", base .. "accounts", 0, a.name)', "")),
    bug(
        "account-with-a-ttl",
        "reserve",
        (_WRITE_HELD, _WRITE_HELD + '\n  redis.call("PEXPIRE", base .. "account:" .. a.name, tombstone_ttl)'),
    ),
    bug(
        "held-release-with-a-ttl",
        "reserve",
        (_WRITE_OVERDUE, _WRITE_OVERDUE + '\nredis.call("PEXPIRE", base .. "release:" .. args.release, tombstone_ttl)'),
    ),
    bug("ended-release-without-a-ttl", "settle", (', "PX", kept_ms)', ")")),
    bug("counters-may-go-negative", "common", (_OUT_OF_RANGE, _OUT_OF_RANGE.replace("number < 0 or ", ""))),
    bug("amounts-may-be-negative", "reserve", ("number < 0 or number > LARGEST", "number > LARGEST")),
    bug("amounts-may-be-inexact", "reserve", ("number > LARGEST or number % 1 ~= 0", "number > LARGEST")),
    bug("answer-shows-the-state-before", "reserve", ("state_of(a, sum(a.committed, debits[i][3], 1))", "state_of(a)")),
)

CAPS = (
    bug("denial-kept-without-a-key", "reserve", ("if refused and not own_key then", "if false then")),
    bug("denial-kept-for-a-generated-key", "reserve", ('~= "" and not args.generated\n', '~= ""\n')),
    bug("key-not-marked-as-generated", "reserve", ("generated = args.generated, ", "")),
    bug("refund-keeps-a-generated-key", "settle", (_KEPT_CLAIM, "tombstone_ttl)")),
    bug("refund-forgets-the-callers-key", "settle", (_KEPT_CLAIM, "spends and tombstone_ttl or 0)")),
    bug("record-of-a-release-kept-long", "settle", (_KEPT_RELEASE, "local kept_ms = tombstone_ttl")),
    bug("generated-key-forgotten", "settle", (_GENERATED_TTL, "0")),
    bug("generated-key-kept-as-the-callers", "settle", (_GENERATED_TTL, "spends and tombstone_ttl or 0")),
    bug("claim-without-its-state", "settle", (_ENDED_CLAIM, "")),
    bug("state-of-another-release", "reserve", ('args.release, "ended", "")', "args.release)")),
    bug("holds-one-too-many", "reserve", ("holds >= integer(args.holds_max)", "holds > integer(args.holds_max)")),
    bug("holds-never-fewer", "settle", ("-1, field, value)", "0, field, value)")),
    bug("holds-not-counted", "reserve", (_RESERVE_JOURNAL, _RESERVE_JOURNAL.replace(", 1)", ", 0)"))),
    bug("refunds-unlimited", "reserve", ("if uncharged_until() - now > HOUR_MS then", "if false then")),
    bug("refunds-one-too-few", "reserve", ("uncharged_until() - now > HOUR_MS", "uncharged_until() - now >= HOUR_MS")),
    bug("refunds-not-counted", "settle", ('value = "uncharged_until_ms", text(uncharged_until())', "value = nil")),
    bug("spends-counted-as-refunds", "settle", ("if not spends then\n    field", "if true then\n    field")),
    bug("kept-denials-not-counted", "reserve", (_COUNT_UNCHARGED, "")),
    bug("allowance-saved-up", "common", ("return math.max(now, until_ms) + step", "return until_ms + step")),
    bug("allowance-lost-with-the-clock", "common", ("until_ms = now --", "--")),
    bug("stored-bytes-unlimited", "reserve", ("if total >= integer(args.stored_bytes_max) then", "if false then")),
    bug("stored-bytes-refused-without-a-key", "reserve", ("if own_key then --", "if true then --")),
    bug("stored-bytes-for-generated-keys-unlimited", "commit", ("total + #ARGV[2] > bytes_max", "false")),
    bug("stored-bytes-refused-for-a-callers-key", "commit", ("not (r.generated and total", "not (total")),
    bug("stored-bytes-never-fewer", "common", ("if row[1] > now then", "if true then")),
    bug("stored-bytes-forgotten", "commit", ("= rows[#rows][2] + #ARGV[2]", "= #ARGV[2]")),
)

READS = (
    bug("subject-left-out-of-the-accounts", "accounts", ("#found < args.limit and", "#found < args.limit - 1 and")),
    bug("missing-account-not-reported", "accounts", ("missing[#missing + 1] = name", "")),
    bug("unreadable-account-not-reported", "accounts", ("unreadable[#unreadable + 1] = name", "")),
    bug("fold-counts-twice", "fold", ("args.position) or 0) ~= integer(args.expected)", "args.position) or 0) < 0")),
    bug("fold-beyond-the-journal", "fold", ('error("a fold ends at an entry that exists")', "local _ = 0")),
    bug("fold-keeps-the-open-bucket", "fold", ('redis.call("ZREMRANGEBYSCORE", key, text(p[3]), "+inf")', "")),
    bug("fold-drops-the-carried-bucket", "fold", ('"-inf", "(" .. carried[2])', '"-inf", carried[2])')),
    bug("fold-drops-nothing", "fold", ("if p[4] > 0 then", "if false then")),
    bug("rank-of-a-late-call", "rank", ('"ranked") or 0) ~= integer(args.expected) then', '"ranked") or 0) < 0 then')),
    bug("rank-beyond-the-journal", "rank", ('error("a ranking ends at an entry that exists")', "local _ = 0")),
    bug("rank-kept-twice", "rank", ('redis.call("ZREM", base .. "ranks:" .. unit, found[2] .. ":" .. subject)', "")),
    bug("rank-of-no-account", "rank", ("if found[1] and found[2] ~= rank then", "if found[2] ~= rank then")),
    bug("rank-not-remembered", "rank", ('redis.call("HSET", key, "rank", rank)', "")),
    bug("seal-twice-for-a-lost-reply", "seal", ("if n == args.n and mac == args.mac then", "if false then")),
    bug("seal-overtakes-another", "seal", ("if n ~= args.after_n or mac ~= args.after_mac then", "if false then")),
    bug("seal-heads-not-written", "seal", ('redis.call("HSET", heads_key, head[1], head[2])', "")),
    bug("seal-without-its-segments", "seal", (_WRITE_SEGMENT, "")),
    bug("seal-said-to-be-known", "seal", ("if n == args.known_n and mac == args.known_mac then", "if n ~= 0 then")),
    bug("trim-past-the-series", "trim", ("math.min(up_to, tonumber(f[i] or 0))", "up_to")),
    bug("trim-past-the-ranks", "trim", ('f[1] == "subject" and 4 or 3', "3")),
    bug("trim-one-entry-too-many", "trim", ('base .. "journal", up_to + 1', 'base .. "journal", up_to + 2')),
)

_CHARGE_ALLOWED = 'if not held or job.cancel_ms and job.spent == "0 0" then'
_CHARGED = 'write({ reserved = "0 0", spent = job.reserved })'
_PART_SETTLED = 'not settled({ release = release }, "commit", "committed", true)'
_PART_HELD = "if not held or job.cancel_ms then"
_REFUND_OF_JOB = (
    'if before.release and before.spent == "0 0" and not settled(before, "cancel", "cancelled", false) then'
)

JOBS = (
    bug("job-hold-expires", "job", ('redis.call("ZREM", base .. "overdue", args.release)', "")),
    bug("job-takes-an-ended-hold", "job", ('not (hold and hold.state == "held")', "not hold")),
    bug("job-charged-by-anybody", "job", (_CHARGE_ALLOWED, 'if job.cancel_ms and job.spent == "0 0" then')),
    bug("job-charged-when-cancelled", "job", (_CHARGE_ALLOWED, "if not held then")),
    bug("job-charged-without-the-ledger", "job", ('not settled(job, "commit", "committed", true)', "false")),
    bug("job-charge-not-reported", "job", (_CHARGED, "")),
    bug("job-charge-still-reported-as-reserved", "job", (_CHARGED, "write({ spent = job.reserved })")),
    bug("job-never-refunded", "job", (_REFUND_OF_JOB, "if false then")),
    bug("job-refund-spends", "job", ('before, "cancel", "cancelled", false)', 'before, "expire", "spent", true)')),
    bug("job-reported-as-refunded", "job", ("ends.spent = before.reserved", "ends.spent = before.spent")),
    bug("job-end-still-reported-as-reserved", "job", ('= text(now), reserved = "0 0" }', "= text(now) }")),
    bug("job-numbers-reported-again", "job", ("args.metrics or job.metrics", "args.metrics")),
    bug("job-numbers-of-anybody", "job", ("if held and (job.stage", "if (job.stage")),
    bug("job-numbers-not-reported", "job", (" or job.metrics ~= metrics)", ")")),
    bug("job-numbers-not-kept", "job", ("progress = args.progress, metrics = metrics,", "progress = args.progress,")),
    bug("job-sealed-by-anybody", "job", ("if held and not job.outcome then", "if not job.outcome then")),
    bug("job-sealed-twice", "job", ("if held and not job.outcome then", "if held then")),
    bug("job-sealed-outcome-not-kept", "job", ('redis.call("HSET", key, "outcome", args.sealed)', "")),
    bug("job-sealed-and-out-of-attempts", "job", ("not job.outcome and tonumber(", "tonumber(")),
    bug(
        "job-charge-lost-is-refused",
        "job",
        ('  end\n  return respond("charged")', '  end\n  return respond("refused")'),
    ),
    bug("job-attempts-without-end", "job", ("tonumber(args.progress) > tonumber(job.progress)", "true")),
    bug("job-part-held-by-anybody", "job", (_PART_HELD, "if job.cancel_ms then")),
    bug(
        "job-part-charged-by-anybody",
        "job",
        ("if not held or job.cancel_ms or not release then", "if not release then"),
    ),
    bug("job-part-charged-without-the-ledger", "job", (_PART_SETTLED, "false")),
    bug("job-part-charged-twice", "job", ('"HSET", holds_key, args.part, "spent")', '"HGET", holds_key, args.part)')),
    bug(
        "job-part-refund-spends",
        "job",
        ('release }, "cancel", "cancelled", false)', 'release }, "expire", "spent", true)'),
    ),
    bug("job-ends-with-open-holds", "job", ("if held and holds > 0 then", "if false then")),
    bug("job-cancelled-with-open-holds", "job", ("if waits and not owes then", "if waits then")),
)

ALERTS = (
    bug("lease-for-everybody", "alert", ("if holder and holder ~= args.holder then", "if false then")),
    bug(
        "alert-lease-released-by-anybody", "alert", ("is_holder() then\n    remove(base", "true then\n    remove(base")
    ),
    bug("rules-one-too-many", "alert", (">= integer(args.rules_max)", "> integer(args.rules_max)")),
    bug("rules-counted-when-replaced", "alert", ("if is_new and #redis", "if #redis")),
    bug("rule-change-without-version", "alert", ('redis.call("ZADD", base .. "owners", version, args.owner)', "")),
    bug("alert-of-anybody", "alert", ("if not args.closing and not is_holder() then", "if false then")),
    bug("alert-of-a-deleted-rule", "alert", ('(redis.call("EXISTS", rule) == 0) ~= (args.closing or false)', "false")),
    bug("alert-fires-twice", "alert", ("if state ~= args.expected then", "if false then")),
    bug("alert-fires-again-for-a-lost-reply", "alert", ("if state == args.state then", "if false then")),
    bug("alert-open-and-over", "alert", ('redis.call("ZREM", place == "open" and over or open, member)', "")),
    bug("alert-state-kept", "alert", ('remove(state_key)\n    redis.call("SREM", states, args.tenant)', "")),
    bug("alert-state-forgotten", "alert", ('redis.call("SADD", states, args.tenant)', "")),
    bug("alerts-never-fewer", "alert", ('redis.call("ZREM", over, member)', "")),
    bug("outbox-one-too-many", "alert", ("< integer(args.outbox_max) then", "<= integer(args.outbox_max) then")),
    bug(
        "delivery-not-scheduled",
        "alert",
        ('  schedule()\n  return answer({ outcome = "changed",', '  return answer({ outcome = "changed",'),
    ),
    bug(
        "delivery-taken-by-anybody",
        "alert",
        ('if not is_holder() then\n    return answer({ outcome = "lost" })\n  end\n  local taken', "local taken"),
    ),
    bug("delivery-taken-twice", "alert", ('redis.call("ZADD", outbox, text(now + integer(args.claim_ms)), id)', "")),
    bug("delivery-attempts-not-counted", "alert", ('redis.call("HSET", key, "attempts", text(attempts))', "")),
    bug("delivery-never-ends", "alert", ('redis.call("ZREM", outbox, args.delivery)', "")),
    bug("delivery-comes-back", "alert", ('redis.call("EXISTS", key) == 0 then\n    return', "false then\n    return")),
    bug("owner-always-due", "alert", ('redis.call("ZREM", base .. "due", args.owner)', "")),
)

MUTANTS = (*ADMISSION, *IDEMPOTENCY, *SETTLEMENT, *RECORDS, *CAPS, *READS, *JOBS, *ALERTS, *GATEWAYS)
