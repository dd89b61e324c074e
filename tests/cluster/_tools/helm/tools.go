//go:build tools

// Package tools names the Helm that the chart's tests build.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
