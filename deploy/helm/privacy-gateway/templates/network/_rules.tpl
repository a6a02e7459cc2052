{{/* Rules of network policies. An empty list of peers would admit everybody, so that a rule is only written with peers. */}}

{{/* Takes {ports: [numbers]}. */}}
{{- define "network.ports" -}}
{{- range .ports }}
- {port: {{ int . }}, protocol: TCP}
{{- end }}
{{- end -}}

{{/* The rules of `networkPolicy.egress.NAME`. Takes {root, names}. */}}
{{- define "network.egress" -}}
{{- $root := .root -}}
{{- range $name := .names }}
{{- range index $root.Values.networkPolicy.egress $name }}
{{- if not (and .to .ports) }}{{ fail (printf "a rule of networkPolicy.egress.%s has no peer or no port, which would be any" $name) }}{{ end }}
# {{ $name }}
- to:
    {{- toYaml .to | nindent 4 }}
  ports:
    {{- include "network.ports" . | nindent 4 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "network.dns" -}}
{{- with .Values.networkPolicy.dns }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}
{{- end -}}

{{/* The pods of a component of this release. Takes {root, component}. */}}
{{- define "network.pods" -}}
- podSelector:
    matchLabels:
      {{- include "gateway.selector" . | nindent 6 }}
{{- end -}}
