{{/* The pod of a Ray node. Takes {root, node, name, readiness, autoscaler}. */}}
{{- define "workers.pod" -}}
{{- $values := .root.Values.workers -}}
metadata:
  labels:
    {{- include "gateway.labels" (dict "root" .root "component" "workers") | nindent 4 }}
    {{- if .autoscaler }}
    privacy-gateway/autoscaler: "true"
    {{- end }}
spec:
  {{- include "gateway.podDefaults" .root | nindent 2 }}
  securityContext:
    {{- include "gateway.podSecurity" 10001 | nindent 4 }}
  # Batches that run are finished.
  terminationGracePeriodSeconds: {{ add (int $values.drainSeconds) 20 }}
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .node.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .node.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .node.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .name }}
      image: {{ include "gateway.image" $values.image | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      securityContext:
        {{- include "gateway.containerSecurity" . | nindent 8 }}
      env:
        {{- include "workers.environment" .root | nindent 8 }}
      ports:
        - {name: serve, containerPort: 8000}
      # KubeRay's own probes would need wget in the image.
      startupProbe:
        httpGet: {path: /api/healthz, port: 52365}
        periodSeconds: 5
        timeoutSeconds: 12
        failureThreshold: 60
      readinessProbe:
        httpGet: {{ .readiness | toJson }}
        periodSeconds: 10
        timeoutSeconds: 12
        failureThreshold: 3
      livenessProbe:
        httpGet: {path: /api/healthz, port: 52365}
        periodSeconds: 20
        timeoutSeconds: 12
        failureThreshold: 6
      {{- $resources := deepCopy .node.resources }}
      {{- if .node.gpus }}
      {{- $limits := merge (dict .node.gpuResource .node.gpus) ($resources.limits | default dict) }}
      {{- $_ := set $resources "limits" $limits }}
      {{- end }}
      resources:
        {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shared-memory, mountPath: /dev/shm}
        - {name: files, mountPath: /files}
        {{- if .autoscaler }}
        - {name: ray-logs, mountPath: /tmp/ray}
        {{- end }}
        {{- if $values.tls.workerSecret }}
        - {name: workers-tls, mountPath: {{ include "workers.tlsFolder" . }}, readOnly: true}
        {{- end }}
  volumes:
    {{- if .autoscaler }}
    # KubeRay would make one of this name on the node's disk.
    - name: ray-logs
      emptyDir: {medium: Memory, sizeLimit: {{ $values.sessionSize }}}
    - name: autoscaler-tmp
      emptyDir: {medium: Memory, sizeLimit: 64Mi}
    - name: kubernetes-api
      projected:
        defaultMode: 0440
        sources:
          - serviceAccountToken: {path: token}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
    {{- end }}
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: {{ $values.sessionSize }}}
    - name: shared-memory
      emptyDir: {medium: Memory, sizeLimit: {{ $values.sharedMemorySize }}}
    - name: files
      emptyDir: {sizeLimit: {{ $values.filesSize }}}
    {{- with $values.tls.workerSecret }}
    - name: workers-tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
{{- end -}}
