//go:build tools

// Package peers names the programs of others that the tests run.
package peers

import _ "github.com/summerwind/h2spec/cmd/h2spec"
