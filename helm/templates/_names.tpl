{{/* Names and labels of the chart's objects. */}}

{{- define "dally.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* 50 characters, so that what is put behind it still fits into 63. */}}
{{- define "dally.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "dally.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Objects without a namespace carry that of the release in their name: two releases may share a cluster. */}}
{{- define "dally.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "dally.fullname" .) -}}
{{- end -}}

{{- define "dally.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "dally.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What selectors use; it never changes for a release. */}}
{{- define "dally.selector" -}}
app.kubernetes.io/name: {{ include "dally.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "dally.serverSelector" -}}
{{ include "dally.selector" . }}
app.kubernetes.io/component: server
{{- end -}}

{{/* Labels of an object: (list $ "component"). */}}
{{- define "dally.labels" -}}
{{- $ := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name ($.Chart.Version | replace "+" "_") | quote }}
{{ include "dally.selector" $ }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: dally
app.kubernetes.io/managed-by: {{ $.Release.Service | quote }}
{{- with $.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dally.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "dally.pullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Not empty with an external PostgreSQL. */}}
{{- define "dally.hasPostgres" -}}
{{- if or .Values.database.url .Values.database.existingSecret.name }}true{{ end -}}
{{- end -}}

{{- define "dally.databaseSecret" -}}
{{- .Values.database.existingSecret.name | default (printf "%s-database" (include "dally.fullname" .)) -}}
{{- end -}}

{{- define "dally.databaseKey" -}}
{{- if .Values.database.existingSecret.name }}{{ .Values.database.existingSecret.key }}{{ else }}url{{ end -}}
{{- end -}}

{{- define "dally.tokenSecret" -}}
{{- .Values.adminToken.existingSecret.name | default (printf "%s-admin-token" (include "dally.fullname" .)) -}}
{{- end -}}

{{- define "dally.tokenKey" -}}
{{- if .Values.adminToken.existingSecret.name }}{{ .Values.adminToken.existingSecret.key }}{{ else }}token{{ end -}}
{{- end -}}

{{- define "dally.claim" -}}
{{- .Values.persistence.existingClaim | default (printf "%s-data" (include "dally.fullname" .)) -}}
{{- end -}}

{{/* Where the server is reached inside the cluster. */}}
{{- define "dally.url" -}}
http://{{ include "dally.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}
