{{/* The name of every object of this release. */}}
{{- define "modelfleet.fullname" -}}
{{- if contains "modelfleet" .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-modelfleet" (.Release.Name | trunc 39 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{- define "modelfleet.selector" -}}
app.kubernetes.io/name: modelfleet
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The activators' own name: nothing that selects the operator's pods finds theirs. */}}
{{- define "modelfleet.activatorName" -}}
{{ include "modelfleet.fullname" . }}-activator
{{- end -}}

{{- define "modelfleet.activatorSelector" -}}
app.kubernetes.io/name: modelfleet-activator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "modelfleet.activatorLabels" -}}
{{ include "modelfleet.activatorSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "modelfleet.callerTokenSecret" -}}
{{ .Values.activator.callerTokenSecretName | default (include "modelfleet.activatorName" .) }}
{{- end -}}

{{- define "modelfleet.labels" -}}
{{ include "modelfleet.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "modelfleet.operatorImage" -}}
{{ required "operator.image is empty: give the image built from deploy/images/Containerfile.operator, e.g. --set operator.image=REGISTRY/modelfleet-operator:TAG" .Values.operator.image }}
{{- end -}}

{{- define "modelfleet.workerImage" -}}
{{ required "worker.image is empty: give the image built from deploy/images/Containerfile.worker, e.g. --set worker.image=REGISTRY/modelfleet-worker:TAG" .Values.worker.image }}
{{- end -}}

{{/* What the operator's pod and the upgrade's pod have in common: pod security standard "restricted", read-only root. */}}
{{- define "modelfleet.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "modelfleet.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end -}}

{{- define "modelfleet.podPlacement" -}}
{{- with .Values.operator.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.operator.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.operator.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.operator.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
