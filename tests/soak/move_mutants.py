"""The seeded bugs of moves of tenants between ledgers."""

from __future__ import annotations

from soak.mutant import Mutant, bug

_BUSY = 'if tenant().holds > 0 or redis.call("ZCARD", base .. "overdue") + redis.call("ZCARD", base .. "jobs:open") > 0'
_DEPART = 'journal("depart", "", "", args.target, "[]", "", "", "", 0, "away", mine)'
_ARRIVE = 'journal("arrive", "", "", args.source, "[]", "", "", "", 0, "arrived", args.token)'

MOVES: tuple[Mutant, ...] = (
    bug("away-not-refused", "common", ("if (record[8] or record[9]) and", "if record[9] and")),
    bug("arriving-not-refused", "common", ("if (record[8] or record[9]) and", "if record[8] and")),
    bug("closing-admits-releases", "reserve", ("if tenant().closing and not args.estimate then", "if false then")),
    bug("closing-admits-jobs", "job", ("if tenant().closing and not args.release then", "if false then")),
    bug("frozen-with-open-holds", "depart", (_BUSY, 'if redis.call("ZCARD", base .. "jobs:open") > 0')),
    bug("frozen-with-open-jobs", "depart", (_BUSY, "if tenant().holds > 0")),
    bug("frozen-by-a-stale-run", "depart", ("if away or closing ~= mine then", "if away then")),
    bug("departure-not-in-the-journal", "depart", (_DEPART, 'redis.call("HSET", KEYS[1], "away", mine)')),
    bug("reopened-by-a-stale-run", "depart", ("if away == mine then\n    journal", "if away then\n    journal")),
    bug("source-never-taken-over", "depart", ('redis.call("HSET", KEYS[1], away and "away" or "closing", mine)', "")),
    bug("cleaned-after-the-return", "depart", ("if away ~= mine or record[9] then\n", "if record[9] then\n")),
    bug("cleaned-during-the-return", "depart", ("if away ~= mine or record[9] then\n", "if away ~= mine then\n")),
    bug("accounts-cleaned", "depart", ('or string.sub(name, 1, 8) == "account:" or', "or")),
    bug("stale-run-writes", "arrive", ("if arriving ~= mine then\n", "if not arriving then\n")),
    bug("written-after-the-activation", "arrive", ("if arriving ~= mine then\n", "if false then\n")),
    bug("tenant-of-the-target-replaced", "arrive", ('return answer({ outcome = "exists" })', "")),
    bug("arrival-not-in-the-journal", "arrive", (_ARRIVE, 'redis.call("HSET", KEYS[1], "arrived", args.token)')),
    bug("never-activated", "arrive", ('"arriving", "away", "schema", "schema_before")', '"away", "schema")')),
    bug("lost-time-to-live", "arrive", ("if ttl >= 0 then", "if false then")),
    bug("large-values-cut", "arrive", ("for i = 1, #value, 1000 do", "for i = 1, 1, 1000 do")),
    bug("members-cut", "moved_keys", ("if #value == 2 * PART then", "if false then")),
    bug("keys-after-a-full-answer-lost", "moved_keys", ("left[#left + 1] = one", "")),
)
