{{/* The name of the RayCluster, which is a part of the names of KubeRay's objects. */}}
{{- define "ray.name" -}}
{{ include "gateway.fullname" . | trunc 36 | trimSuffix "-" }}-ray
{{- end -}}

{{/* The environment of every container of the cluster. */}}
{{- define "ray.token" -}}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ .Values.ray.token.secret }}, key: {{ .Values.ray.token.key }}}
{{- end -}}

{{/* A pod of the cluster. Takes {root, group, cpus, automount}. Whatever Ray and the jobs write is in memory. */}}
{{- define "ray.template" -}}
{{- $root := .root -}}
{{- $ray := $root.Values.ray -}}
metadata:
  labels:
    {{- include "gateway.labels" (dict "root" $root "component" "ray") | nindent 4 }}
spec:
  automountServiceAccountToken: {{ .automount }}
  enableServiceLinks: false
  {{- with .group.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  securityContext:
    {{- include "gateway.podSecurity" 10001 | nindent 4 }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .group.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .group.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: ray
      image: {{ include "gateway.image" $ray.image | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      securityContext:
        {{- include "gateway.containerSecurity" $root | nindent 8 }}
      env:
        {{- include "ray.token" $root | nindent 8 }}
        - name: RAY_USAGE_STATS_ENABLED
          value: "0"
        # an option of Ray's core by its name
        - name: RAY_automatic_object_spilling_enabled
          value: "false"
        - name: PRIVACY_GATEWAY_STORE_URL
          value: {{ $root.Values.storage.objectStore.url | quote }}
        - name: PRIVACY_GATEWAY_RAY_PLAIN_HTTP
          value: "true"
        - name: PRIVACY_GATEWAY_JOB_THREADS
          value: {{ .jobThreads | quote }}
        {{- range $name, $from := $ray.secretEnvironment }}
        - name: {{ $name }}
          valueFrom:
            secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}
        {{- end }}
      ports:
        - {name: agent, containerPort: 52365}
      # Ray's agent of the node, which ends with its node.
      startupProbe:
        tcpSocket: {port: agent}
        periodSeconds: 5
        failureThreshold: 60
      readinessProbe:
        tcpSocket: {port: agent}
        periodSeconds: 15
        timeoutSeconds: 15
      livenessProbe:
        tcpSocket: {port: agent}
        periodSeconds: 20
        timeoutSeconds: 15
        failureThreshold: 6
      {{- $resources := deepCopy .group.resources }}
      {{- if .group.gpus }}
      {{- $limits := merge (dict $root.Values.gateway.gpuResource .group.gpus) ($resources.limits | default dict) }}
      {{- $_ := set $resources "limits" $limits }}
      {{- end }}
      resources:
        {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: ray-logs, mountPath: /tmp/ray}
        - {name: home, mountPath: /home/gateway}
        - {name: shared-mem, mountPath: /dev/shm}
  # The names ray-logs and shared-mem are those of KubeRay, which would otherwise add the first one on the disk.
  volumes:
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: 1Gi}
    - name: ray-logs
      emptyDir: {medium: Memory, sizeLimit: 2Gi}
    - name: home
      emptyDir: {medium: Memory, sizeLimit: 64Mi}
    - name: shared-mem
      emptyDir: {medium: Memory, sizeLimit: {{ .group.sharedMemory }}}
{{- end -}}
