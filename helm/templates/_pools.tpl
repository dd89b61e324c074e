{{/* What the pools of `config.pools` ask for. A pool that names no mode is exclusive. */}}

{{- define "dally.hasExclusivePool" -}}
{{- range .Values.config.pools }}{{ if eq (default "exclusive" .mode) "exclusive" }}true{{ end }}{{ end -}}
{{- end -}}

{{/* Not empty where others may run pods on the nodes too: in shared pools, and without any pool. */}}
{{- define "dally.sharesNodes" -}}
{{- if not .Values.config.pools }}true{{ end -}}
{{- range .Values.config.pools }}{{ if eq (default "exclusive" .mode) "shared" }}true{{ end }}{{ end -}}
{{- end -}}

{{/* In CEL: whether the resource `name` counts as a GPU. */}}
{{- define "dally.isGpu" -}}
{{- $tests := list -}}
{{- range .Values.exclusivePools.gpuResources -}}
{{- if hasSuffix "-" . -}}
{{- $tests = append $tests (printf "name.startsWith('%s')" .) -}}
{{- else -}}
{{- $tests = append $tests (printf "name == '%s'" .) -}}
{{- end -}}
{{- end -}}
{{- join " || " $tests -}}
{{- end -}}
