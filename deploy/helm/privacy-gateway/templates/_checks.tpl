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
{{- if $values.ray.enabled -}}
{{- if not $values.storage.objectStore.url -}}
{{- fail "ray.enabled needs storage.objectStore.url, through which the files of jobs pass" -}}
{{- end -}}
{{- range $name, $_ := $values.gateway.settings -}}
{{- if or (eq $name "JOBS_ON") (hasPrefix "RAY_" $name) -}}
{{- fail (printf "gateway.settings.%s: with ray.enabled the chart sets it" $name) -}}
{{- end -}}
{{- end -}}
{{- if gt (int $values.ray.workers.minReplicas) (int $values.ray.workers.maxReplicas) -}}
{{- fail "ray.workers.minReplicas is above ray.workers.maxReplicas" -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled (lt (int $values.ray.workers.minReplicas) (int $values.ray.workers.maxReplicas)) (not $values.networkPolicy.egress.kubernetes) -}}
{{- fail "networkPolicy denies the autoscaler the API of the cluster: set networkPolicy.egress.kubernetes, or equal ray.workers.minReplicas and maxReplicas" -}}
{{- end -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- end -}}
