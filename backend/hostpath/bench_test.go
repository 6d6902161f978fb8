package hostpath

import (
	"os"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// BenchmarkProtect is what a start pays for it.
func BenchmarkProtect(b *testing.B) {
	for name, dir := range map[string]string{"empty": b.TempDir(), "repository": os.Getenv("BENCH_WORKSPACE")} {
		if dir == "" {
			continue
		}
		b.Run(name, func(b *testing.B) {
			req := backend.Request{Spec: policy.Spec{Workspace: policy.Workspace{Source: dir, Mode: policy.ModeBind, Access: "rw"}}}
			for b.Loop() {
				mounts, err := Mounts(req, policy.WorkspacePath)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := Protect(b.Context(), req, mounts, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
