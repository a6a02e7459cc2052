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
{{- if $values.ray.enabled }}{{ include "ray.checks" . }}{{ end -}}
{{- end -}}

{{- define "ray.checks" -}}
{{- $values := .Values -}}
{{- $settings := $values.gateway.settings -}}
{{- $worker := $values.ray.worker -}}
{{- $options := "PRIVACY_GATEWAY_STORE_OPTIONS" -}}
{{- if not $values.storage.objectStore.url -}}
{{- fail "ray.enabled needs storage.objectStore.url: files of jobs pass through it" -}}
{{- end -}}
{{- range $name, $_ := $settings -}}
{{- if or (eq $name "JOBS_ON") (hasPrefix "RAY_" $name) -}}
{{- fail (printf "gateway.settings.%s: ray.enabled sets it" $name) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $values.gateway.secretEnvironment "PRIVACY_GATEWAY_RAY_TOKEN" -}}
{{- fail "gateway.secretEnvironment.PRIVACY_GATEWAY_RAY_TOKEN: set ray.secret and ray.tokenKey instead" -}}
{{- end -}}
{{- if and (hasKey $values.gateway.secretEnvironment $options) (not (hasKey $values.ray.secretEnvironment $options)) -}}
{{- fail (printf "ray.secretEnvironment needs %s, with credentials for jobs/ alone" $options) -}}
{{- end -}}
{{- range $values.gateway.secretFolders -}}
{{- if hasPrefix (printf "/etc/privacy-gateway/%s/" .name) (get $settings "STORE_CA_FILE" | default "") -}}
{{- fail "STORE_CA_FILE: Ray's workers have gateway.configFolders alone, so put the file into a ConfigMap" -}}
{{- end -}}
{{- end -}}
{{- if gt (int $worker.minReplicas) (int $worker.maxReplicas) -}}
{{- fail "ray.worker.minReplicas is above ray.worker.maxReplicas" -}}
{{- end -}}
{{- $threads := max 1 (int (get $settings "JOB_THREADS" | default 1)) -}}
{{- if lt (int $worker.cores) (int $threads) -}}
{{- fail "ray.worker.cores is below JOB_THREADS: no entry point of a job would fit on a worker" -}}
{{- end -}}
{{- if and (not $worker.gpus) (lt (mul (div $worker.cores $threads) $worker.maxReplicas) 2) -}}
{{- fail "ray.worker: an entry point and an actor, of JOB_THREADS cores each, do not fit on maxReplicas workers" -}}
{{- end -}}
{{- if and (contains "cuda" (toString (get $settings "DEVICES"))) (lt (mul $worker.gpus $worker.maxReplicas) 2) -}}
{{- fail "ray.worker.gpus: with DEVICES of cuda, an entry point and an actor take a GPU each" -}}
{{- end -}}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.egress.clusterApi) -}}
{{- fail "networkPolicy denies Ray's autoscaler the API server: set networkPolicy.egress.clusterApi" -}}
{{- end -}}
{{- end -}}
