{{/* The names and labels of a group's objects. */}}
{{- define "nri.suffix" -}}
{{ if .name }}-{{ .name }}{{ end }}
{{- end }}

{{- define "nri.labels" -}}
app.kubernetes.io/name: nri-v1bridge
{{- if .name }}
nri.io/group: {{ .name }}
{{- end }}
{{- end }}

{{/* The name of the file of bridge options. */}}
{{- define "nri.options-file" -}}
{{ if eq .Values.mode "outside" }}v1bridge.json{{ else }}10-v1bridge.conf{{ end }}
{{- end }}

{{/* The end of the name of the ConfigMap with the bridge options: another name replaces the pods. */}}
{{- define "nri.options-hash" -}}
{{ .Values.bridgeOptions | toJson | sha256sum | trunc 10 }}
{{- end }}

{{/* What all of our containers are: root, or nobody, with a file system that is read-only and the fewest rights. */}}
{{- define "nri.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
seccompProfile:
  type: RuntimeDefault
{{- end }}
