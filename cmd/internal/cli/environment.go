package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/stores"
	"github.com/paddock-dev/paddock/privilege/token"
)

// These environment variables bound the audit log.
const (
	auditSizeEnv = "PADDOCK_AUDIT_SIZE"
	auditKeepEnv = "PADDOCK_AUDIT_KEEP"
)

// The values of --audit.
const (
	auditRequired   = "required"
	auditBestEffort = "best-effort"
)

// where returns the place where privileges are stored, empty for the default.
func (a *App) where() string { return cmp.Or(a.privileges, os.Getenv(stores.Env)) }

// Env returns the environment of operations: the principal is the local user, without a
// ceiling, since Paddock can do no more than that user could without it.
func (a *App) Env() (*op.Env, error) {
	log, err := auditLog()
	if err == nil && a.audit != auditRequired && a.audit != auditBestEffort {
		err = &policy.FieldError{Field: "--audit", Value: a.audit, Reason: "unknown value", Hint: auditRequired + " or " + auditBestEffort}
	}
	if err != nil {
		return nil, err
	}
	where := a.where()
	self, _ := os.Executable() // without it the one beside the agent ends sandboxes
	options := paddock.Options{Program: self, Own: a.ownFiles(where), GitUser: true, Path: os.Getenv("PATH"),
		Caches: paddock.CacheOptions{Auto: true, Host: true}, Toolchains: func(paddock.Mount) bool { return true }}
	return &op.Env{
		Options:  options,
		Backends: backends(),
		Audit:    log,
		Warn: func(err error) { // the operation goes on
			fmt.Fprintf(os.Stderr, "paddock: note: %s\n", oneLine(err.Error()))
		},
		Planted: func(p op.Planted) { // each operation prints what its own sandboxes left
			if p.Late {
				name := p.Sandbox
				if k, err := paddock.Find(context.Background(), name, options); err == nil { // its keeper ended it
					name = k.Called()
				}
				text := fmt.Sprintf("sandbox %s, which ended unattended, in %q\n%s", name, p.Workspace, p.Text)
				fmt.Fprintln(os.Stderr, "paddock: "+strings.ReplaceAll(text, "\n", "\npaddock: "))
			}
		},
		Project: func(note string) {
			fmt.Fprintf(os.Stderr, "paddock: %s\n", note)
		},

		AuditBestEffort: a.audit == auditBestEffort,

		LookupEnv: os.LookupEnv,
		Principal: stores.Local(where),
		Privileges: sync.OnceValues(func() (privilege.Store, error) {
			return stores.Open(where, func(url string) (privilege.Store, error) {
				if a.program.OpenRedis == nil {
					return nil, &privilege.Unavailable{Store: "Redis", Cause: a.noServer, Hint: keepServer}
				}
				return a.program.OpenRedis(url)
			})
		}),
		Tokens: sync.OnceValues(OpenTokens),
	}, nil
}

// ownFiles returns Paddock's own files outside the state directory: the file of privileges,
// and the files that flags name and that are in use until the end.
func (a *App) ownFiles(where string) []backend.OwnFile {
	own := slices.Clone(a.Own)
	if where == "" || stores.IsRemote(where) {
		return own
	}
	file := backend.OwnFile{Path: where, What: "where privileges are kept", Field: stores.Env, Replaced: true}
	if a.privileges != "" {
		file.Field = "--privileges"
	}
	if abs, err := hostpath.Abs(where); err == nil {
		file.Path = abs
	}
	return append(own, file)
}

// OpenTokens opens the tokens, which are always in the state directory, so that only this
// host decides who may connect.
func OpenTokens() (*token.Store, error) {
	dir, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	return token.Open(filepath.Join(dir, token.FileName))
}

// auditLog returns the log in the state directory. It is nil if no state directory is
// possible; operations that need a record are then refused.
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
		return nil, nil //nolint:nilerr // operations that need the log report it
	}
	return audit.At(filepath.Join(state, "audit"), opts), nil
}
