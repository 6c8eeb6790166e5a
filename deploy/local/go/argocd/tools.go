//go:build tools

// Package tools pins the programs that deploy/local builds from this module.
package tools

import (
	_ "github.com/argoproj/argo-cd/v3/cmd"
)
