{{/* What gateways and Ray workers agree on: the application of Ray Serve, and the environment of both. */}}

{{- define "workers.fullname" -}}
{{ include "gateway.fullname" . }}-workers
{{- end -}}

{{/* KubeRay names the Service of Ray Serve after the RayService. */}}
{{- define "workers.directory" -}}
http://{{ include "workers.fullname" . }}-serve-svc:8000
{{- end -}}

{{/* The folder of a Secret with certificates, in gateways and in workers. */}}
{{- define "workers.tlsFolder" -}}
/etc/privacy-gateway-workers
{{- end -}}

{{/* Of both sides. Takes {workers, tlsSecret}. */}}
{{- define "workers.access" -}}
- name: PRIVACY_GATEWAY_WORKERS_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .workers.secret }}, key: {{ .workers.tokenKey }}}
{{- if .tlsSecret }}
- {name: PRIVACY_GATEWAY_WORKERS_TLS_CA, value: {{ include "workers.tlsFolder" . }}/ca.crt}
- {name: PRIVACY_GATEWAY_WORKERS_TLS_CERTIFICATE, value: {{ include "workers.tlsFolder" . }}/tls.crt}
- {name: PRIVACY_GATEWAY_WORKERS_TLS_KEY, value: {{ include "workers.tlsFolder" . }}/tls.key}
{{- else }}
- {name: PRIVACY_GATEWAY_WORKERS_PLAIN, value: "true"}
{{- end }}
{{- end -}}

{{- define "workers.gatewayEnvironment" -}}
- name: PRIVACY_GATEWAY_ENGINE
  value: ray
- name: PRIVACY_GATEWAY_WORKERS_DIRECTORY
  value: {{ include "workers.directory" . | quote }}
{{- if .Values.workers.roles.jobs.replicas }}
- name: PRIVACY_GATEWAY_JOBS
  value: ray
{{- end }}
{{ include "workers.access" (dict "workers" .Values.workers "tlsSecret" .Values.workers.tls.gatewaySecret) }}
{{- end -}}

{{- define "workers.environment" -}}
{{ include "workers.access" (dict "workers" .Values.workers "tlsSecret" .Values.workers.tls.workerSecret) }}
# The root file system is read-only.
- {name: PRIVACY_GATEWAY_DATA_DIR, value: /tmp/gateway}
- {name: PRIVACY_GATEWAY_WORKER_FILES_DIR, value: /files}
- {name: HOME, value: /tmp}
- {name: RAY_USAGE_STATS_ENABLED, value: "0"}
- {name: RAY_ENABLE_AUTO_CONNECT, value: "0"}
{{- range $name, $value := .Values.workers.settings }}
- name: PRIVACY_GATEWAY_{{ $name }}
  value: {{ include "gateway.settingValue" $value | quote }}
{{- end }}
# Limits that gateways and workers both apply: those of the gateways, unless workers have their own.
{{- range $name := list "FILL_SLOTS_MAX" "PLACES_PER_DOCUMENT_MAX" "REQUEST_TIMEOUT_S" "VECTORS_MEMORY_BYTES_MAX" "JOB_MEMORY_BYTES_MAX" "TENANT_DISK_BYTES_MAX" }}
{{- if and (hasKey $.Values.gateway.settings $name) (not (hasKey $.Values.workers.settings $name)) }}
- name: PRIVACY_GATEWAY_{{ $name }}
  value: {{ include "gateway.settingValue" (get $.Values.gateway.settings $name) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether the number of nodes follows what the replicas need: `true`, or nothing. */}}
{{- define "workers.nodesScale" -}}
{{- if gt (int .Values.workers.nodes.maxReplicas) (int .Values.workers.nodes.replicas) }}true{{ end -}}
{{- end -}}

{{/* The container that KubeRay adds to the head. Its account of the cluster's API is in this container alone, and it
     shares with the container that runs Ray no folder but that of the logs. */}}
{{- define "workers.autoscaler" -}}
version: v2
securityContext:
  {{- include "gateway.containerSecurity" . | nindent 2 }}
env:
  - {name: HOME, value: /tmp}
  - {name: RAY_USAGE_STATS_ENABLED, value: "0"}
volumeMounts:
  - {name: autoscaler-tmp, mountPath: /tmp}
  - {name: ray-logs, mountPath: /tmp/ray}
  - {name: kubernetes-api, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end -}}

{{- define "workers.application" -}}
proxy_location: EveryNode
http_options: {host: 0.0.0.0, port: 8000}
applications:
  - name: privacy-gateway
    import_path: service.ray_serve.application:build
    route_prefix: /
    args:
      port_first: {{ .Values.workers.ports.first }}
      port_last: {{ .Values.workers.ports.last }}
      drain_s: {{ .Values.workers.drainSeconds }}
      target_load: {{ .Values.workers.scaling.targetLoad }}
      scale_up_s: {{ .Values.workers.scaling.upSeconds }}
      scale_down_s: {{ .Values.workers.scaling.downSeconds }}
      roles:
        {{- range $role, $size := .Values.workers.roles }}
        {{- if or $size.replicas (ne $role "jobs") }}
        {{- if $size.maxReplicas }}
        {{ $role }}: {replicas: {{ $size.minReplicas }}, replicas_max: {{ $size.maxReplicas }}, cpus: {{ $size.cpus }}, gpus: {{ $size.gpus }}}
        {{- else }}
        {{ $role }}: {replicas: {{ $size.replicas }}, cpus: {{ $size.cpus }}, gpus: {{ $size.gpus }}}
        {{- end }}
        {{- end }}
        {{- end }}
{{- end -}}
