package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

type TokenCreateInput struct {
	Principal   string          `json:"principal" arg:"PRINCIPAL" max:"128" help:"whom it authenticates, such as agent:ann; privileges are granted to this name"`
	Workspaces  []string        `json:"workspaces,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" max:"64" help:"directory that can be a workspace, and be changed; the first is the default sandbox's (may be repeated)"`
	CeilingFile string          `json:"ceiling_file,omitempty" flag:"ceiling" arg:"FILE" complete:"file" help:"read the most that sandboxes may ask for from a YAML or JSON file (default: the workspaces, and what the spec has)"`
	SpecFile    osstring.String `json:"spec_file,omitempty" flag:"spec" arg:"FILE" complete:"file" help:"read the default sandbox's spec from a YAML or JSON file"`
	Expires     Lifetime        `json:"expires,omitempty" flag:"expires" arg:"TIME" help:"end the token after this time, 30d or 12h (default: never)"`
	Privileged  bool            `json:"with_privileges,omitempty" flag:"with-privileges" help:"also for a name that holds privileges on the host, or that is a local user's: the token gives them to whoever has it"`
}

// TokenOutput describes a token, without the token itself.
type TokenOutput struct {
	ID        string          `json:"id"`
	Principal string          `json:"principal"`
	Created   time.Time       `json:"created"`
	Expires   *time.Time      `json:"expires,omitempty"`
	Expired   bool            `json:"expired,omitempty"`
	Workspace osstring.String `json:"workspace,omitempty"`
}

type TokenCreateOutput struct {
	// Token is the token itself, which is shown only here.
	Token string `json:"token"`
	TokenOutput
}

func (TokenCreateInput) Desc() op.Desc {
	return op.Desc{
		Name:    "token_create",
		CLI:     []string{"token", "create"},
		Local:   true,
		Summary: "Create a token with which a principal can connect by HTTP",
		Doc: `Create a bearer token for "paddock mcp --http". It is printed once, alone on
standard output; only its hash is kept, in tokens.json in the state directory.

The principal's sandboxes can use the directories that are named with --workspace,
and what is below them, and nothing else of the host: no mounts, no network, no other
backend. The first directory is the workspace of the default sandbox. --spec FILE
describes that sandbox further, and all sandboxes may have what it has; --ceiling FILE
says, field by field, what else they may ask for. What it leaves out of limits, idle and
lifetime is written down as it is by default, and asking for more is refused.

All tokens of a principal have the same bounds, since they share its sandboxes. For
another token of the same principal, leave out the bounds. Privileges beyond sandboxes
are granted to the principal: paddock privilege grant PRINCIPAL NAME. A token for a
name that holds some already, or that local users and their models have (root,
user:NAME, uid:N, model:NAME), needs --with-privileges. Creating a token needs
ALTER_PRIVILEGES too.`,
		Examples: `  paddock token create agent:ann --workspace ~/project
  paddock token create ci --workspace /srv/ci --ceiling ci.yaml --expires 30d
  TOKEN=$(paddock token create bob --workspace .)`,
		Needs: privilege.AlterPrivileges,
	}
}

func (in TokenCreateInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (TokenCreateOutput, error) {
	now := time.Now()
	n := token.New{Principal: in.Principal}
	if in.Expires > 0 {
		n.Expires = now.Add(time.Duration(in.Expires))
	}
	if err := in.privileged(ctx, env); err != nil {
		return TokenCreateOutput{}, err
	}
	var err error
	if n.Bounds, err = in.bounds(ctx, env); err != nil {
		return TokenCreateOutput{}, err
	}
	store, err := tokens(env)
	if err != nil {
		return TokenCreateOutput{}, err
	}
	text, made, err := store.Create(ctx, n, now)
	if err != nil {
		return TokenCreateOutput{}, err
	}
	return TokenCreateOutput{text, tokenOutput(made, now)}, nil
}

// privileged refuses, unless it is said, a principal that may act on the host itself.
func (in TokenCreateInput) privileged(ctx context.Context, env *op.Env) error {
	if in.Privileged {
		return nil
	}
	if privilege.CheckName(in.Principal) != nil {
		return nil //nolint:nilerr // the store of tokens refuses it
	}
	refuse := func(reason string) error {
		return &policy.FieldError{Field: "principal", Value: in.Principal, Reason: reason,
			Hint: "choose a name of its own, agent:NAME say, or say that this is meant: --with-privileges"}
	}
	kind, _, of := strings.Cut(in.Principal, ":")
	if in.Principal == "root" || of && slices.Contains([]string{"user", "uid", "model"}, kind) {
		return refuse("it is the name of a local user or its models: what is granted to them would hold for whoever has the token")
	}
	if env.Privileges == nil {
		return nil
	}
	store, err := privileges(env)
	if err != nil {
		return err
	}
	held, err := store.Get(ctx, in.Principal)
	if err != nil {
		return storeError(err)
	}
	if held != 0 {
		return refuse("it holds " + strings.Join(held.Names(), ", ") + ", and whoever has the token would too")
	}
	return nil
}

// bounds returns the bounds in the input, or nil if there are none.
func (in TokenCreateInput) bounds(ctx context.Context, env *op.Env) (*token.Bounds, error) {
	if len(in.Workspaces) == 0 && in.CeilingFile == "" && in.SpecFile == "" {
		return nil, nil
	}
	if err := errors.Join(env.MayRead("ceiling_file", in.CeilingFile), env.MayRead("spec_file", string(in.SpecFile))); err != nil {
		return nil, err
	}
	dirs, err := realDirs(env, in.Workspaces)
	if err != nil {
		return nil, err
	}
	spec := policy.Spec{}
	if in.SpecFile != "" {
		if spec, err = env.ReadSpec(ctx, "spec_file", string(in.SpecFile)); err != nil {
			return nil, err
		}
	}
	if len(dirs) > 0 {
		spec.Workspace.Source = dirs[0]
	}
	if spec.Workspace.Source == "" && spec.Backend != policy.BackendWrapper {
		return nil, &policy.FieldError{Field: "workspaces", Reason: "the default sandbox has no workspace", Hint: "name a directory: --workspace DIR"}
	}
	if spec, err = op.OperatorSpec(spec); err != nil {
		return nil, err
	}
	ceiling, err := in.ceiling(ctx, env, spec, dirs)
	if err != nil {
		return nil, err
	}
	linked, err := paddock.LinkWorktree(ctx, spec, env.Options)
	if err != nil {
		return nil, err
	}
	for _, m := range linked.Mounts[len(spec.Mounts):] {
		if !ceiling.Holds(m) { // the principal must not get more than what was written
			field := "workspaces"
			if len(dirs) == 0 {
				field = "spec_file"
			}
			return nil, &policy.FieldError{Field: field, Value: spec.Workspace.Source, Reason: "it is a linked worktree of the repository in " + m.Source + ", which the principal could change with it",
				Hint: "where that is meant, put " + policy.ShellWord(m.Source) + " into the mounts of a ceiling: --ceiling FILE; else name another directory"}
		}
	}
	return &token.Bounds{Ceiling: *ceiling.Explicit(), Default: spec}, nil
}

// ceiling returns the file's ceiling. Without a file it makes one from the default sandbox and
// the workspaces.
func (in TokenCreateInput) ceiling(ctx context.Context, env *op.Env, spec policy.Spec, dirs []string) (*policy.Ceiling, error) {
	if in.CeilingFile != "" {
		data, err := env.ReadFile(ctx, "ceiling_file", "ceiling", in.CeilingFile, specfile.MaxSize)
		if err != nil {
			return nil, err
		}
		return specfile.DecodeCeiling(in.CeilingFile, data)
	}
	c, err := spec.Ceiling()
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !slices.ContainsFunc(c.Workspace, func(p policy.Place) bool { return p.Source == dir }) {
			c.Workspace = append(c.Workspace, policy.Place{Source: dir, Mode: "rw"})
		}
	}
	return c, nil
}

// realDirs returns directories with all links resolved, since under a ceiling none is
// followed.
func realDirs(env *op.Env, written []string) ([]string, error) {
	dirs := make([]string, 0, len(written))
	for i, text := range written {
		refuse := func(reason string) error {
			return &policy.FieldError{Field: "workspaces[" + strconv.Itoa(i) + "]", Value: text, Reason: reason}
		}
		if text == "" {
			return nil, refuse("it is empty")
		}
		way, err := hostpath.Locate(env.StateDir(), text)
		switch {
		case err != nil:
			return nil, op.FieldError("workspaces["+strconv.Itoa(i)+"]", text, err)
		case !way.Exists:
			return nil, refuse("no such file or directory")
		case !way.IsDir():
			return nil, refuse("it is not a directory")
		}
		dirs = append(dirs, way.Path)
	}
	return dirs, nil
}

// tokenOutput returns the description of a token.
func tokenOutput(h token.Holder, now time.Time) TokenOutput {
	out := TokenOutput{ID: h.Token.ID, Principal: h.Token.Principal, Created: h.Token.Created, Expired: h.Token.Expired(now)}
	if h.Bounds != nil {
		out.Workspace = osstring.String(h.Bounds.Default.Workspace.Source)
	}
	if !h.Token.Expires.IsZero() {
		out.Expires = &h.Token.Expires
	}
	return out
}

// Render writes the token alone, for scripts.
func (out TokenCreateOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintln(w, out.Token)
	return err
}

// Remark describes the token.
func (out TokenCreateOutput) Remark(w io.Writer) error {
	_, err := fmt.Fprintf(w, "id         %s\nprincipal  %s\nworkspace  %s\nexpires    %s\n\nIt is shown this once. Clients send it as \"Authorization: Bearer TOKEN\".\n",
		out.ID, out.Principal, out.Workspace, expiryText(out.TokenOutput))
	return err
}

func expiryText(t TokenOutput) string {
	switch {
	case t.Expires == nil:
		return "never"
	case t.Expired:
		return t.Expires.Format(time.DateTime) + " (expired)"
	}
	return t.Expires.Format(time.DateTime) + " UTC"
}

// tokens opens the store of tokens.
func tokens(e *op.Env) (*token.Store, error) {
	if e.Tokens == nil {
		return nil, &paddock.Error{Message: "cannot use tokens: this door has no store of them"}
	}
	return e.Tokens()
}

type TokenListInput struct {
	Principal string `json:"principal,omitempty" arg:"PRINCIPAL" max:"128" help:"only those of this principal"`
}

type TokenListOutput struct {
	Tokens []TokenOutput `json:"tokens"`
}

func (TokenListInput) Desc() op.Desc {
	return op.Desc{
		Name:    "token_list",
		CLI:     []string{"token", "list"},
		Local:   true,
		Summary: "List tokens and their principals",
		Doc: `List the tokens that "paddock mcp --http" accepts: the ID of each, its principal, the
workspace of the principal's default sandbox, and when it was created and expires. The
token itself is not stored. An expired token is listed for at least a week, until the
next one is created.`,
		Examples: "  paddock token list\n  paddock token list agent:ann",
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in TokenListInput) Do(_ context.Context, env *op.Env, _ *op.Stream) (TokenListOutput, error) {
	store, err := tokens(env)
	if err != nil {
		return TokenListOutput{}, err
	}
	all, err := store.List()
	if err != nil {
		return TokenListOutput{}, err
	}
	out := TokenListOutput{Tokens: []TokenOutput{}}
	for _, one := range all {
		if in.Principal == "" || in.Principal == one.Token.Principal {
			out.Tokens = append(out.Tokens, tokenOutput(one, time.Now()))
		}
	}
	return out, nil
}

func (out TokenListOutput) Render(w io.Writer) error {
	if len(out.Tokens) == 0 {
		_, err := fmt.Fprintln(w, "there are no tokens")
		return err
	}
	return output.Table(w, func(row output.Row) {
		for _, t := range out.Tokens {
			row("%s\t%s\t%s\tmade %s\texpires %s", t.ID, t.Principal, t.Workspace, t.Created.Format(time.DateOnly), expiryText(t))
		}
	})
}

type TokenRevokeInput struct {
	// ID is bounded so that a whole token, given by mistake, is refused before anything
	// is recorded.
	ID        string `json:"id,omitempty" arg:"ID" max:"8" help:"the token's ID, as lists show it"`
	Principal string `json:"principal,omitempty" flag:"principal" arg:"PRINCIPAL" max:"128" help:"all tokens of this one"`
}

type TokenRevokeOutput struct {
	Revoked []TokenOutput `json:"revoked"`
}

func (TokenRevokeInput) Desc() op.Desc {
	return op.Desc{
		Name:    "token_revoke",
		CLI:     []string{"token", "revoke"},
		Local:   true,
		Summary: "Revoke a token, or all tokens of a principal",
		Doc: `Revoke a token, or all tokens of a principal. A running server refuses it from the
next request on, and within seconds ends what runs for it: its sessions and, with the
principal's last token, the principal's sandboxes. It needs ALTER_PRIVILEGES.`,
		Examples: "  paddock token revoke k3qzt7ab\n  paddock token revoke --principal agent:ann",
		Needs:    privilege.AlterPrivileges,
		Hints:    op.Hints{Frees: true, Destructive: true},
	}
}

func (in TokenRevokeInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (TokenRevokeOutput, error) {
	if (in.ID == "") == (in.Principal == "") {
		return TokenRevokeOutput{}, &policy.FieldError{Field: "id", Value: in.ID, Reason: "name either one token by its ID, or a principal", Hint: "paddock token list"}
	}
	store, err := tokens(env)
	if err != nil {
		return TokenRevokeOutput{}, err
	}
	gone, err := store.Revoke(ctx, in.ID, in.Principal)
	if errors.Is(err, token.ErrNoToken) {
		return TokenRevokeOutput{}, &paddock.Error{Message: "cannot revoke a token: it is unknown", Hint: "paddock token list"}
	}
	if err != nil {
		return TokenRevokeOutput{}, err
	}
	out := TokenRevokeOutput{Revoked: []TokenOutput{}}
	for _, one := range gone {
		out.Revoked = append(out.Revoked, tokenOutput(token.Holder{Token: one}, time.Now()))
	}
	return out, nil
}

func (out TokenRevokeOutput) Render(w io.Writer) error {
	for _, t := range out.Revoked {
		if _, err := fmt.Fprintf(w, "revoked %s of %s\n", t.ID, t.Principal); err != nil {
			return err
		}
	}
	return nil
}

// maxLifetime is the longest [Lifetime].
const maxLifetime = 10 * 366 * 24 * time.Hour

// Lifetime is how long something is valid: a duration in the notation of [policy.Duration],
// or a number of days, "30d". It is at most ten years.
type Lifetime time.Duration

// UnmarshalText parses a lifetime, which must not be 0.
func (l *Lifetime) UnmarshalText(text []byte) error {
	number, isDays := strings.CutSuffix(string(text), "d")
	days, err := strconv.ParseUint(number, 10, 16)
	d := time.Duration(days) * 24 * time.Hour
	if !isDays || err != nil {
		written, err := policy.ParseDuration(string(text))
		if err != nil {
			return &policy.FieldError{Field: "lifetime", Value: string(text), Reason: "it is not a duration", Hint: "write 30d, or 12h"}
		}
		d = time.Duration(written)
	}
	if d < time.Second || d > maxLifetime {
		return &policy.FieldError{Field: "lifetime", Value: string(text), Reason: "it is not from 1s to 3660d"}
	}
	*l = Lifetime(d)
	return nil
}

// MarshalText returns it as a duration.
func (l Lifetime) MarshalText() ([]byte, error) { return []byte(time.Duration(l).String()), nil }

// JSONSchema returns the schema of both notations.
func (l Lifetime) JSONSchema() string {
	return `{"type": "string", "pattern": "^([0-9]+d|[+]?([0-9]*[.]?[0-9]*(ns|us|ms|s|m|h))+)$", "description": "a number of days, 30d, or a duration, 12h"}`
}
