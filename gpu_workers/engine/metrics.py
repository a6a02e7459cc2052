"""Prometheus metrics of the engine. Labels are roles and fixed outcomes, never tenant data."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

QUEUE_LENGTH = Gauge("gateway_queue_tasks", "Tasks waiting for a worker", ["role"])
QUEUE_SECONDS = Histogram("gateway_queue_seconds", "Time from admission to a worker", ["role"], buckets=_SECONDS)
BATCH_TASKS = Histogram("gateway_batch_tasks", "Tasks in a batch", ["role"], buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256))
BATCH_SECONDS = Histogram("gateway_batch_seconds", "Time of a batch in a worker", ["role"], buckets=_SECONDS)
WORKER_READY = Gauge("gateway_workers_ready", "Workers that are warm", ["role"])
WORKER_RESTARTS = Counter("gateway_worker_restarts", "Workers that died and were started again", ["role"])
REFUSED = Counter("gateway_engine_refused", "Groups of tasks that were not started", ["role", "code"])
