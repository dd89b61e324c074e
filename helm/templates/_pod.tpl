{{/* Parts that the pods of the chart share. */}}

{{- define "dally.databaseEnv" -}}
{{- if include "dally.hasPostgres" . }}
- name: DALLYD_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "dally.databaseSecret" . | quote }}
      key: {{ include "dally.databaseKey" . | quote }}
{{- end }}
{{- end -}}

{{- define "dally.serverEnv" -}}
- name: DALLYD_CONFIG
  value: /etc/dally/dallyd.yaml
- name: DALLYD_ADMIN_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "dally.tokenSecret" . | quote }}
      key: {{ include "dally.tokenKey" . | quote }}
{{- include "dally.databaseEnv" . }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dally.volumes" -}}
- name: config
  configMap:
    name: {{ include "dally.fullname" . | quote }}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
- name: data
{{- if include "dally.hasPostgres" . }}
  emptyDir: {sizeLimit: 1Gi}
{{- else if .Values.persistence.enabled }}
  persistentVolumeClaim:
    claimName: {{ include "dally.claim" . | quote }}
{{- else }}
  emptyDir: {}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dally.spread" -}}
{{- with .Values.topologySpreadConstraints }}
{{ toYaml . }}
{{- else }}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "dally.serverSelector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* Where the pods may run, for all pods of the chart. */}}
{{- define "dally.where" -}}
{{- $where := dict -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" -}}
{{- with index $.Values $key -}}
{{- $_ := set $where $key . -}}
{{- end -}}
{{- end -}}
{{- with $where }}{{ toYaml . }}{{ end -}}
{{- end -}}
