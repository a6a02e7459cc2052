{{/* Combinations of values that cannot work. The schema checks each value alone. */}}
{{- define "gateway.checks" -}}
{{- $values := .Values -}}
{{- if and (or $values.autoscaling.enabled (gt (int $values.gateway.replicas) 1)) (not $values.storage.objectStore.url) -}}
{{- fail "autoscaling.enabled and gateway.replicas above 1 need storage.objectStore.url: gateways on one ledger use one store" -}}
{{- end -}}
{{- if gt (int (get $values.gateway.settings "PROCESSES" | default 1)) 1 -}}
{{- fail "gateway.settings.PROCESSES: set gateway.replicas instead, whose metrics are scraped" -}}
{{- end -}}
{{- if gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and (eq $values.redis.mode "external") (not $values.redis.external.secret) -}}
{{- fail "redis.mode external needs redis.external.secret, the existing Secret with the URL" -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled (eq $values.redis.mode "external") (not $values.networkPolicy.egress.redis) -}}
{{- fail "networkPolicy denies the connection to Redis: set networkPolicy.egress.redis" -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled $values.storage.objectStore.url (not $values.networkPolicy.egress.objectStore) -}}
{{- fail "networkPolicy denies the connection to the object store: set networkPolicy.egress.objectStore" -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- if $values.workers.enabled -}}
{{- $tls := and $values.workers.tls.gatewaySecret $values.workers.tls.workerSecret -}}
{{- if not (or $tls $values.workers.plain) -}}
{{- fail "workers.enabled needs workers.tls.gatewaySecret and workers.tls.workerSecret, or workers.plain for text without encryption" -}}
{{- end -}}
{{- end -}}
{{- if and $values.workers.enabled $values.networkPolicy.enabled (not $values.networkPolicy.kuberayOperator.namespace) -}}
{{- fail "networkPolicy denies the connection of KubeRay's operator to the workers: set networkPolicy.kuberayOperator.namespace" -}}
{{- end -}}
{{- if $values.workers.enabled -}}
{{- $settings := $values.workers.settings -}}
{{- $timeout := get $settings "REQUEST_TIMEOUT_S" | default (get $values.gateway.settings "REQUEST_TIMEOUT_S") | default 60 | float64 | ceil | int -}}
{{- $least := add $timeout (get $settings "WORKER_SLOT_S" | default 5 | float64 | ceil | int) -}}
{{- if lt (int $values.workers.drainSeconds) (int $least) -}}
{{- fail (printf "workers.drainSeconds is below REQUEST_TIMEOUT_S and WORKER_SLOT_S, %d seconds together: a worker that ends would lose batches, which are charged" (int $least)) -}}
{{- end -}}
{{- end -}}
{{- if gt (int $values.workers.ports.first) (int $values.workers.ports.last) -}}
{{- fail "workers.ports.first is above workers.ports.last" -}}
{{- end -}}
{{- range $role, $size := $values.workers.roles -}}
{{- if ne (kindIs "invalid" $size.minReplicas) (kindIs "invalid" $size.maxReplicas) -}}
{{- fail (printf "workers.roles.%s has one of minReplicas and maxReplicas: give both, or replicas alone" $role) -}}
{{- end -}}
{{- if gt (int $size.minReplicas) (int $size.maxReplicas) -}}
{{- fail (printf "workers.roles.%s.minReplicas is above maxReplicas" $role) -}}
{{- end -}}
{{- end -}}
{{- if and $values.workers.enabled $values.networkPolicy.enabled (include "workers.nodesScale" $) (not $values.networkPolicy.egress.kubernetes) -}}
{{- fail "networkPolicy denies the connection of the Ray head to Kubernetes' API, which changes the number of nodes: set networkPolicy.egress.kubernetes" -}}
{{- end -}}
{{- if gt (int $values.workers.nodes.replicas) (int $values.workers.nodes.maxReplicas) -}}
{{- fail "workers.nodes.replicas is above workers.nodes.maxReplicas" -}}
{{- end -}}
{{- end -}}
