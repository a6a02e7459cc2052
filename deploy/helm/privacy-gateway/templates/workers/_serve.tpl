{{/* What gateways and Ray workers agree on: the application of Ray Serve, and the environment of both. */}}

{{- define "workers.fullname" -}}
{{ include "gateway.fullname" . }}-workers
{{- end -}}

{{/* KubeRay names the Service of Ray Serve after the RayService. */}}
{{- define "workers.directory" -}}
http://{{ include "workers.fullname" . }}-serve-svc:8000
{{- end -}}

{{- define "workers.gatewayEnvironment" -}}
- name: PRIVACY_GATEWAY_ENGINE
  value: ray
- name: PRIVACY_GATEWAY_WORKERS_DIRECTORY
  value: {{ include "workers.directory" . | quote }}
- name: PRIVACY_GATEWAY_WORKERS_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .Values.workers.secret }}, key: {{ .Values.workers.tokenKey }}}
- {name: PRIVACY_GATEWAY_WORKERS_PLAIN, value: "true"}  # the network policies bound who reaches workers and directory
{{- end -}}

{{- define "workers.environment" -}}
- name: PRIVACY_GATEWAY_WORKERS_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .Values.workers.secret }}, key: {{ .Values.workers.tokenKey }}}
- {name: PRIVACY_GATEWAY_WORKERS_PLAIN, value: "true"}  # the network policies bound who reaches workers and directory
- {name: HOME, value: /tmp}  # the root file system is read-only
- {name: RAY_USAGE_STATS_ENABLED, value: "0"}
- {name: RAY_ENABLE_AUTO_CONNECT, value: "0"}
{{- end -}}

{{- define "workers.application" -}}
applications:
  - name: privacy-gateway
    import_path: service.ray_serve.application:build
    route_prefix: /
    args:
      port_first: {{ .Values.workers.ports.first }}
      port_last: {{ .Values.workers.ports.last }}
      roles:
        {{- range $role, $size := .Values.workers.roles }}
        {{ $role }}: {replicas: {{ $size.replicas }}, cpus: {{ $size.cpus }}, gpus: {{ $size.gpus }}}
        {{- end }}
{{- end -}}
