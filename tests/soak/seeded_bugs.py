"""Seed bugs in the service and the workers, one at a time, and see that `make test` notices each.

    PYTHONPATH=.:tests:tests/kits python -m soak.seeded_bugs [NAME ...]

Each bug replaces one text of one file in a copy of the project; a text that is not found exactly once fails loudly.
Only the fast tests in the folders that a bug names run, until one fails. Prints which test caught each bug; exit code 1
when one survives.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from soak.mutants import copy_of, first_failure

COPIED = ("client", "core", "deploy", "docs", "examples", "gpu_workers", "service", "tests", "training", "benchmarks")
COPIED += (".github", "pyproject.toml", "README.md", "Makefile", "Dockerfile", "docker-compose.yml")
LIMIT_S = 600  # of the tests of one bug; a bug may also keep a test from ending


class Bug(NamedTuple):
    """`tests`: folders and files below `tests/` of which one test must fail."""

    name: str
    path: str
    tests: tuple[str, ...]
    old: str
    new: str


# A bug is its name, its file and the folders of its tests, and below them what changes, as in a diff.
TABLE = """
# who may do what
tenant_as_operator service/http/auth.py service/http
-        return None if key is None else Caller(key.tenant, key.key_id, key.roles, tenant_state=key.tenant_state)
+        return None if key is None else Admin()
revoked_key_keeps_its_streams service/http/auth.py service/http service/sanitize
-        if not is_valid or state.ended:  # the keys of a tenant that was closed by command are revoked within seconds
+        if False:
no_failure_limit service/admission.py service/test_failure_limit.py
-        return None if taken.admitted else _whole_seconds(taken)
+        return None
rate_without_refill service/admission.py service/test_rate_limit.py
-bucket.tokens + (now - bucket.at) * per_second)
+bucket.tokens)
requests_of_other_sites service/http/browser_sessions.py service/http service/dashboard
-        if not same or request.headers
+        if request.headers
cookie_for_scripts service/http/browser_sessions.py service/dashboard
-max_age=max_age, httponly=True,
+max_age=max_age, httponly=False,
token_without_an_end service/restore/tokens.py service/sanitize
-int.from_bytes(head[1:], "big") <= self._clock()
+int.from_bytes(head[1:], "big") < 0
# what is charged
refund_of_started_work service/releases/pipeline.py service/releases service/http service/sentdp
-refund = isinstance(error, NotStarted) and not started
+refund = not started
refund_after_the_draw service/releases/pipeline.py service/releases service/http
-refund = isinstance(error, NotStarted) and not started
+refund = isinstance(error, NotStarted)
lost_work_is_refunded gpu_workers/engine/pending.py gpu_workers/engine
-self.settle(TaskFailed() if isinstance(result, NotStarted) else result)
+self.settle(result)
answers_are_not_kept service/releases/pipeline.py service/releases service/http
-kept = await _packed(body, release_request, bytes_max) if stored else None
+kept = None
one_claim_for_all_bodies service/releases/pipeline.py service/releases service/http
-        body = await request.body() if release_request.fingerprint is None else release_request.fingerprint
+        body = b""
second_draw gpu_workers/engine/handler.py gpu_workers/engine
-    results = _in_time(limit.drawing, lambda _: draw(), tasks)
+    results = [_in_time(limit.drawing, lambda _: draw(), tasks) for _ in range(2)][1]
charged_is_not_said service/releases/pipeline.py service/sanitize
-                    error.charged = True
+                    error.charged = None
# what leaves
keys_go_upstream service/proxy/call.py service/proxy
-"openai": frozenset({"openai-beta"}),
+"openai": frozenset({"openai-beta", "authorization"}),
account_of_the_operator service/proxy/call.py service/proxy
-"openai-processing-ms", "openai-version",
+"openai-processing-ms", "openai-version", "openai-organization",
windows_without_overlap gpu_workers/handlers/sanitize_tasks.py gpu_workers/handlers
-        own = text[window.start : window.end]
+        own = text[window.core_start : window.core_end]
kept_values_under_a_policy service/sanitize/service.py service/sanitize
-if self._policies.enforced(tenant) and any(keeps(
+if False and any(keeps(
secrets_for_children gpu_workers/fork_server.py service/test_child_environment.py gpu_workers
-    return name in NAMES or name.startswith(PREFIXES)
+    return True
webhook_without_its_time service/alerts/delivery.py service/alerts
-signed = f"{event_id}.{timestamp}.".encode() + body
+signed = f"{event_id}.".encode() + body
webhooks_to_private_addresses service/alerts/delivery.py service/alerts
-        if is_address(host) and not admitted(host, self._receiver(url)):
+        if not host:
changed_file_is_used gpu_workers/handlers/options.py gpu_workers/handlers
-        if file.digest is not None and
+        if False and
# tenants beside each other
longest_line_first gpu_workers/engine/fairness.py gpu_workers/engine
-        line.turn = (line.start, line.number, tenant)
+        line.turn = (-line.start, line.number, tenant)
work_that_is_not_charged gpu_workers/engine/fairness.py gpu_workers/engine
-        line.start += entry.work
+        line.start += 1
         self._remove_first(tenant)
no_share_of_the_queue gpu_workers/engine/task_queue.py gpu_workers/engine service/http
-            return TenantLimitReached(limit="queue_tenant_share")
+            pass
suspects_run_with_others gpu_workers/engine/pending.py gpu_workers/engine
-        return pending.group.tenant in self._suspected or self._digest(pending) in self._documents
+        return False
one_tenant_has_all_places gpu_workers/engine/fairness.py gpu_workers/engine/test_turns.py service/test_isolation.py
-                if self._running[found[0]] < self._tenant_places:
+                if True:
parsers_without_a_limit_of_memory service/isolation_process.py service/test_isolation.py
-    limit_memory(limits.memory_bytes)
+    pass
no_limit_of_values service/http/body.py service/http
-        if values > limits.values_max or containers > limits.containers_max:
+        if containers > limits.containers_max:
the_only_file_of_another_tenant_goes gpu_workers/handlers/options.py gpu_workers/handlers
-        del self._loaded[next(file for file in self._loaded if loaded[_folder(file)] == most)]
+        self._loaded.popitem(last=False)
"""


def bugs() -> Iterator[Bug]:
    for bug in re.split(r"^(?=\w)", re.sub(r"^#.*\n", "", TABLE, flags=re.MULTILINE), flags=re.MULTILINE)[1:]:
        head, *lines = bug.splitlines()
        name, path, *tests = head.split()
        old, new = ("\n".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        yield Bug(name, path, tuple(tests), old, new)


def caught_by(bug: Bug) -> str | None:
    """The test that fails with the bug, or None. Raises SystemExit for a text that is not found once."""
    with tempfile.TemporaryDirectory(prefix="bug-") as folder:
        copy = Path(folder)
        copy_of(copy, *COPIED)
        source = (copy / bug.path).read_text()
        if source.count(bug.old) != 1:
            raise SystemExit(f"{bug.name}: found {source.count(bug.old)} times in {bug.path}")
        (copy / bug.path).write_text(source.replace(bug.old, bug.new))
        return first_failure(copy, (f"tests/{each}" for each in bug.tests if (copy / "tests" / each).exists()), LIMIT_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    chosen = [bug for bug in bugs() if not names or bug.name in names]
    survived = 0
    for bug in chosen:
        began = time.monotonic()
        test = caught_by(bug)
        survived += test is None
        print(f"{bug.name:40} {test or 'SURVIVED':90} {time.monotonic() - began:5.0f} s", flush=True)
    print(f"\n{len(chosen) - survived} of {len(chosen)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
