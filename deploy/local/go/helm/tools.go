//go:build tools

// Package tools pins the programs that deploy/local builds from this module.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
