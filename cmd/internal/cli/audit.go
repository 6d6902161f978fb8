package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/policy"
)

// What an administrator may say of the audit log.
const (
	auditSizeEnv = "PADDOCK_AUDIT_SIZE"
	auditKeepEnv = "PADDOCK_AUDIT_KEEP"
)

// The values of --audit.
const (
	auditRequired   = "required"
	auditBestEffort = "best-effort"
)

func (a *App) addAuditFlag(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.audit, "audit", auditRequired,
		"refuse what cannot be put on record (required), or do it all the same (best-effort), as `MODE`; what needs a privilege is always refused")
}

// auditLog is the log in the directory of state, nil where there is no place
// for one: what cannot do without is refused then.
func auditLog() (*audit.Log, error) {
	var opts audit.Options
	if text := os.Getenv(auditSizeEnv); text != "" {
		size, err := policy.ParseSize(text)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s: %w", auditSizeEnv, err)
		}
		opts.MaxSize = int64(size)
	}
	if text := os.Getenv(auditKeepEnv); text != "" {
		keep, err := strconv.ParseUint(text, 10, 8)
		if err != nil || keep == 0 {
			return nil, &policy.FieldError{Field: auditKeepEnv, Value: text, Reason: "it is not a number of files from 1 to 255"}
		}
		opts.Keep = int(keep)
	}
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, nil //nolint:nilerr // the operation says so, where it matters
	}
	return audit.At(filepath.Join(state, "audit"), opts), nil
}

// warn prints what is wrong and stops nothing.
func warn(err error) { fmt.Fprintf(os.Stderr, "paddock: note: %s\n", oneLine(err.Error())) }
