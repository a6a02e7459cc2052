{{/* What every pod and container of the chart has: no root, no capability, a read-only root file system. */}}

{{/* Takes the number of the user. The group of a volume is set once: a later change would open files to the group that
     only their owner may read. */}}
{{- define "gateway.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "gateway.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Members of a pod: no token of the cluster's API, and no variables for each Service. A Service named privacy-gateway
     would set PRIVACY_GATEWAY_PORT, and the gateway would not start. */}}
{{- define "gateway.podDefaults" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- end -}}
