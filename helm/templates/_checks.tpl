{{/* Values that the schema allows one by one and that can not be together. Every template of the server includes this. */}}

{{- define "dally.check" -}}
{{- $postgres := include "dally.hasPostgres" . -}}
{{- if and .Values.database.url .Values.database.existingSecret.name -}}
{{- fail "database.url and database.existingSecret.name both say where the URL is: set one of them" -}}
{{- end -}}
{{- if and (gt (int .Values.replicaCount) 1) (not $postgres) -}}
{{- fail (printf "replicaCount is %d, and SQLite has one server: set database.url or database.existingSecret.name to an external PostgreSQL, or replicaCount to 1" (int .Values.replicaCount)) -}}
{{- end -}}
{{- range $value := list "commonLabels" "podLabels" -}}
{{- range $label, $_ := index $.Values $value -}}
{{- if or (hasPrefix "app.kubernetes.io/" $label) (eq $label "helm.sh/chart") -}}
{{- fail (printf "%s.%s is set by the chart, whose selectors use such labels" $value $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host: tokens are only safe where TLS ends for a known name" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
{{- fail "gateway.enabled needs gateway.parentRefs: the gateways that the route hangs on" -}}
{{- end -}}
{{- range list "serviceMonitor" "prometheusRule" -}}
{{- if and (index $.Values.metrics .).enabled (not $.Values.metrics.enabled) -}}
{{- fail (printf "metrics.%s.enabled needs metrics.enabled" .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.enabled (eq (int .Values.metrics.port) 8470) -}}
{{- fail "metrics.port is 8470, which is the API's" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) .Values.rbac.create -}}
{{- fail "serviceAccount.create is false: name the account that gets the rights in serviceAccount.name (or set rbac.create to false)" -}}
{{- end -}}
{{- if has .Release.Namespace .Values.jobNamespaces.names -}}
{{- if .Values.jobNamespaces.create -}}
{{- fail (printf "jobNamespaces.names holds %s, which is the namespace of the release: workers need one of their own, which `helm uninstall` leaves alone" .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- range .Values.config.projects -}}
{{- if and .namespace (not (has .namespace $.Values.jobNamespaces.names)) -}}
{{- fail (printf "config.projects: the namespace %s of project %s is not in jobNamespaces.names" .namespace .name) -}}
{{- end -}}
{{- end -}}
{{- range list "host" "port" "allowPlainHttp" "dataDir" "databaseUrl" "metricsPort" "adminToken" "role" "executor" "jobNamespace" "workerApiUrl" -}}
{{- if hasKey $.Values.config.server . -}}
{{- fail (printf "config.server.%s is set by the chart" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
