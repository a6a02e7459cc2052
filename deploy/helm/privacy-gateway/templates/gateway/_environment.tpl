{{/* The environment of a gateway. Everything else is a setting of `gateway.settings`. */}}

{{/* A setting as the gateway reads it: whole numbers without an exponent, lists and objects as JSON. */}}
{{- define "gateway.settingValue" -}}
{{- if or (kindIs "map" .) (kindIs "slice" .) -}}
{{- toJson . -}}
{{- else if kindIs "float64" . -}}
{{- if eq . (floor .) -}}{{- printf "%.0f" . -}}{{- else -}}{{- printf "%v" . -}}{{- end -}}
{{- else -}}
{{- printf "%v" . -}}
{{- end -}}
{{- end -}}

{{/* Takes variables with the secrets that have their values. */}}
{{- define "gateway.secretVariables" -}}
{{- range $name, $from := . }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}
{{- end }}
{{- end -}}

{{- define "gateway.redisHost" -}}
{{ include "gateway.fullname" . }}-redis
{{- end -}}

{{- define "gateway.environment" -}}
- name: PRIVACY_GATEWAY_HOST
  value: 0.0.0.0
- name: PRIVACY_GATEWAY_PORT
  value: "8000"
- name: PRIVACY_GATEWAY_ADMIN_HOST
  value: 0.0.0.0
- name: PRIVACY_GATEWAY_ADMIN_PORT
  value: "9464"
# A folder in the volume, which the gateway makes readable by itself alone.
- name: PRIVACY_GATEWAY_DATA_DIR
  value: /data/gateway
- name: PRIVACY_GATEWAY_MASTER_KEY
  valueFrom:
    secretKeyRef: {name: {{ .Values.keys.secret }}, key: {{ .Values.keys.masterKey }}}
- name: PRIVACY_GATEWAY_ADMIN_KEY
  valueFrom:
    secretKeyRef: {name: {{ .Values.keys.secret }}, key: {{ .Values.keys.adminKey }}}
{{- if eq .Values.redis.mode "external" }}
- name: PRIVACY_GATEWAY_REDIS_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.redis.external.secret }}, key: {{ .Values.redis.external.key }}}
{{- else }}
# Kubernetes puts the password into the URL. The gateway removes both variables from its environment.
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .Values.redis.secret }}, key: {{ .Values.redis.passwordKey }}}
- name: PRIVACY_GATEWAY_REDIS_URL
  value: redis://gateway:$(REDIS_PASSWORD)@{{ include "gateway.redisHost" . }}:6379/0
{{- with .Values.redis.archiverPasswordKey }}
- name: REDIS_ARCHIVER_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $.Values.redis.secret }}, key: {{ . }}}
- name: PRIVACY_GATEWAY_ARCHIVE_REDIS_URL
  value: redis://archiver:$(REDIS_ARCHIVER_PASSWORD)@{{ include "gateway.redisHost" $ }}:6379/0
{{- end }}
{{- end }}
{{- with .Values.storage.objectStore.url }}
- name: PRIVACY_GATEWAY_STORE_URL
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := .Values.gateway.settings }}
- name: PRIVACY_GATEWAY_{{ $name }}
  value: {{ include "gateway.settingValue" $value | quote }}
{{- end }}
{{- if .Values.ray.enabled }}
# Only the gateway that holds a job answers for it, so the cluster calls this pod.
- name: POD_IP
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
- name: PRIVACY_GATEWAY_JOBS_ON
  value: ray
- name: PRIVACY_GATEWAY_RAY_URL
  value: http://{{ include "ray.name" . }}-head-svc:8265
- name: PRIVACY_GATEWAY_RAY_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .Values.ray.secret }}, key: {{ .Values.ray.tokenKey }}}
- name: PRIVACY_GATEWAY_RAY_PORT
  value: "9470"
- name: PRIVACY_GATEWAY_RAY_GATEWAY_URL
  value: http://$(POD_IP):9470
- name: PRIVACY_GATEWAY_RAY_PLAIN_HTTP
  value: "true"
{{- end }}
{{- include "gateway.secretVariables" .Values.gateway.secretEnvironment }}
{{- end -}}
