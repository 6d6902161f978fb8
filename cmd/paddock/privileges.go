package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/stores"
	"github.com/paddock-dev/paddock/privilege/token"
)

func (a *app) addPrivilegesFlag(root *cobra.Command) {
	root.PersistentFlags().StringVar(&a.privileges, "privileges", "",
		"`FILE` or URL of a Redis server where privileges are kept (default: $"+stores.Env+", else "+stores.FileName+" in the state directory)")
}

// where is where privileges are kept, empty for the default.
func (a *app) where() string { return cmp.Or(a.privileges, os.Getenv(stores.Env)) }

// env is what operations find around them here: the local user asks, and has
// no ceiling, since Paddock can do no more than that user could without it.
func (a *app) env() (*op.Env, error) {
	log, err := auditLog()
	if err == nil && a.audit != auditRequired && a.audit != auditBestEffort {
		err = &policy.FieldError{Field: "--audit", Value: a.audit, Reason: "unknown value", Hint: auditRequired + " or " + auditBestEffort}
	}
	if err != nil {
		return nil, err
	}
	where := a.where()
	return &op.Env{
		Options:  paddock.Options{Own: a.ownFiles(where), GitUser: true, Path: os.Getenv("PATH")},
		Backends: backends(),
		Audit:    log,
		Warn:     warn,
		Planted:  tellLate,

		AuditBestEffort: a.audit == auditBestEffort,

		LookupEnv:  os.LookupEnv,
		Principal:  stores.Local(where),
		Privileges: sync.OnceValues(func() (privilege.Store, error) { return stores.Open(where, openRemote) }),
		Tokens:     sync.OnceValues(openTokens),
	}, nil
}

// ownFiles are Paddock's own files that its state does not hold: where privileges
// are kept, and what the command line names for as long as the program runs.
func (a *app) ownFiles(where string) []backend.OwnFile {
	own := slices.Clone(a.own)
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

// tellLate tells what a sandbox has left whose paddock was killed. Of others each
// operation tells itself.
func tellLate(p op.Planted) {
	if p.Late {
		text := fmt.Sprintf("sandbox %s, whose paddock was killed, in %q\n%s", p.Sandbox, p.Workspace, p.Text)
		fmt.Fprintln(os.Stderr, "paddock: "+strings.ReplaceAll(text, "\n", "\npaddock: "))
	}
}

// openTokens opens the tokens, which are always in the state directory: who may
// come in is this host's to say.
func openTokens() (*token.Store, error) {
	dir, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	return token.Open(filepath.Join(dir, token.FileName))
}
