//go:build mcp && fixtures

package main

import "github.com/paddock-dev/paddock/internal/testkit/fixtures"

// This program is for tests: it also has what the protocol's conformance suite
// asks every server for.
func init() { extend = fixtures.Extend }
