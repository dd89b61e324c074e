{{/* dallyd.yaml: what the chart settles, and the parts of `config` that say something. */}}

{{- define "dally.config" -}}
{{- $server := dict "host" "0.0.0.0" "port" 8470 "allowPlainHttp" true "dataDir" "/var/lib/dally" -}}
{{- $_ := set $server "executor" "kubernetes" -}}
{{- $_ := set $server "jobNamespace" (first .Values.jobNamespaces.names) -}}
{{- $_ := set $server "workerApiUrl" (include "dally.url" .) -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $server "metricsPort" (int .Values.metrics.port) -}}
{{- end -}}
{{- $file := dict "server" (merge $server .Values.config.server) -}}
{{- range $part, $value := omit .Values.config "server" -}}
{{- if $value -}}
{{- $_ := set $file $part $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $file -}}
{{- end -}}
