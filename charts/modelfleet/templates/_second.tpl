{{/*
Refuses what would not lead anyway: a second installation that shares a namespace with one that leads now. Only Helm asks the
cluster while it renders; for all others the operator itself says so, is not ready and does not lead.
*/}}
{{- define "modelfleet.refuseSecond" -}}
{{- $here := printf "%s/%s" .Release.Namespace (include "modelfleet.fullname" .) }}
{{- $ours := .Values.operator.namespaces }}
{{- range (lookup "coordination.k8s.io/v1" "Lease" "" "").items }}
{{- $there := printf "%s/%s" .metadata.namespace .metadata.name }}
{{- $leads := and (eq (dig "labels" "modelfleet.dev/lease" "" .metadata) "leader") .spec.holderIdentity (ne $here $there) }}
{{- /* A Lease that nobody has renewed for a minute is what a killed operator left. */}}
{{- if and $leads .spec.renewTime }}
{{- $age := sub (now | unixEpoch) (toDate "2006-01-02T15:04:05Z07:00" .spec.renewTime | unixEpoch) }}
{{- $theirs := splitList "," (dig "annotations" "modelfleet.dev/serves-namespaces" "*" .metadata) }}
{{- $shared := list }}
{{- range $theirs }}
{{- if or (empty $ours) (has . $ours) }}{{ $shared = append $shared . }}{{ end }}
{{- end }}
{{- if has "*" $theirs }}{{ $shared = $ours | default (list "all") }}{{ end }}
{{- if and $shared (lt $age 60) }}
{{- fail (printf "another installation of modelfleet already serves these namespaces: %s. Its operator %s holds the Lease %s. Upgrade that release, uninstall it, or give each installation its own namespaces with operator.namespaces" (join ", " $shared) .spec.holderIdentity $there) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
