package obeyed

import (
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// BenchmarkProtect is what the start in a small directory pays for it.
func BenchmarkProtect(b *testing.B) {
	req := backend.Request{Spec: policy.Spec{Workspace: policy.Workspace{Source: b.TempDir(), Mode: policy.ModeBind, Access: "rw"}}}
	for b.Loop() {
		mounts, err := hostpath.Mounts(req, policy.WorkspacePath)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Protect(b.Context(), req, mounts, nil); err != nil {
			b.Fatal(err)
		}
	}
}
