{{/* What the nodes of the Ray cluster have in common. KubeRay adds the command and its own variables. */}}

{{- define "ray.name" -}}
{{ include "gateway.fullname" . }}-ray
{{- end -}}

{{/* Ray's objects are numbers and names. The rest of /dev/shm is for the files of jobs. */}}
{{- define "ray.objectStoreBytes" -}}
268435456
{{- end -}}

{{- define "ray.environment" -}}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .Values.ray.secret }}, key: {{ .Values.ray.tokenKey }}}
- name: RAY_USAGE_STATS_ENABLED
  value: "0"
- name: RAY_automatic_object_spilling_enabled
  value: "0"
{{- end -}}

{{- define "ray.podSpec" -}}
{{ include "gateway.podDefaults" . }}
securityContext:
  {{- include "gateway.podSecurity" 10001 | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Takes {root, node}, a node with cores and memory. KubeRay tells Ray the limits. Ends with the mounts. */}}
{{- define "ray.container" -}}
{{- $resources := dict "cpu" .node.cores "memory" .node.memory -}}
image: {{ include "gateway.image" .root.Values.ray.image | quote }}
imagePullPolicy: {{ .root.Values.ray.image.pullPolicy }}
securityContext:
  {{- include "gateway.containerSecurity" . | nindent 2 }}
{{- $probe := "httpGet: {path: /api/healthz, port: 52365}, timeoutSeconds: 15" }}
startupProbe: { {{- $probe }}, periodSeconds: 5, failureThreshold: 60}
readinessProbe: { {{- $probe }}, periodSeconds: 15, failureThreshold: 4}
livenessProbe: { {{- $probe }}, periodSeconds: 20, failureThreshold: 6}
resources:
  requests:
    {{- toYaml $resources | nindent 4 }}
  limits:
    {{- if .node.gpus }}{{ $_ := set $resources .root.Values.gateway.gpuResource .node.gpus }}{{ end }}
    {{- toYaml $resources | nindent 4 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: session, mountPath: /tmp/ray}
  - {name: home, mountPath: /home/gateway}
  - {name: shared-memory, mountPath: /dev/shm}
{{- end -}}

{{/* All that a node writes is in memory. Takes {root, node}. */}}
{{- define "ray.volumes" -}}
{{- $files := .root.Values.ray.temporaryFiles -}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: {{ $files }}}
# Ray's session directory, with its logs.
- name: session
  emptyDir: {medium: Memory, sizeLimit: {{ $files }}}
- name: home
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
- name: shared-memory
  emptyDir: {medium: Memory, sizeLimit: {{ .node.sharedMemory }}}
{{- end -}}
