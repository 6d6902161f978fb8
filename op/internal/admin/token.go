package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

func TokenOps() []op.Op { return []op.Op{tokenCreateOp(), tokenListOp(), tokenRevokeOp()} }

// TokenCreateInput says whom a token lets in, and what they may have.
type TokenCreateInput struct {
	Principal   string   `json:"principal" arg:"PRINCIPAL" max:"128" help:"whom it lets in, agent:ann say; privileges are granted to this name"`
	Workspaces  []string `json:"workspaces,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" max:"64" help:"directory that may be a workspace, and be changed; the first is that of the default sandbox (may be repeated)"`
	CeilingFile string   `json:"ceiling_file,omitempty" flag:"ceiling" arg:"FILE" complete:"file" help:"read the most that sandboxes may ask for from a YAML or JSON file (default: the workspaces, and what the spec has)"`
	SpecFile    string   `json:"spec_file,omitempty" flag:"spec" arg:"FILE" complete:"file" help:"read the default sandbox's spec from a YAML or JSON file"`
	Expires     Lifetime `json:"expires,omitempty" flag:"expires" arg:"TIME" help:"end the token after this time, 30d or 12h (default: never)"`
}

// TokenOutput is a token as lists show it: never the token itself.
type TokenOutput struct {
	ID        string     `json:"id"`
	Principal string     `json:"principal"`
	Created   time.Time  `json:"created"`
	Expires   *time.Time `json:"expires,omitempty"`
	Expired   bool       `json:"expired,omitempty"`
	Workspace string     `json:"workspace,omitempty"`
}

// TokenCreateOutput is a new token.
type TokenCreateOutput struct {
	// Token is the token itself, which is told here and never again.
	Token string `json:"token"`
	TokenOutput
}

func tokenCreateOp() op.Op {
	return op.New(op.Desc{
		Name:    "token_create",
		CLI:     []string{"token", "create"},
		Local:   true,
		Summary: "Make a token that lets a principal in by HTTP",
		Doc: `Make a bearer token for "paddock mcp --http". It is printed once; what is kept of
it, in tokens.json in the state directory, is a hash.

A principal's sandboxes can ask for the directories that are named with
--workspace, and what is below them, and for nothing else of the host: no mounts,
no network, no other backend. The first is the workspace of the sandbox that is
meant where none is named. --spec FILE says more of that sandbox, and all may have
what it has; --ceiling FILE says, field by field, what else they may ask for.

All tokens of a principal have the same bounds, since they share its sandboxes.
For another token of a principal the bounds are left out. Privileges beyond
sandboxes are granted to the principal: paddock privilege grant PRINCIPAL NAME.
It needs ALTER_PRIVILEGES, as that does.`,
		Examples: `  paddock token create agent:ann --workspace ~/project
  paddock token create ci --workspace /srv/ci --ceiling ci.yaml --expires 30d
  TOKEN=$(paddock token create bob --workspace . --json | jq -r .token)`,
		Needs: privilege.AlterPrivileges,
	}, tokenCreate, renderTokenCreate)
}

func tokenCreate(ctx context.Context, env *op.Env, in TokenCreateInput, _ *op.Stream) (TokenCreateOutput, error) {
	now := time.Now()
	n := token.New{Principal: in.Principal}
	if in.Expires > 0 {
		n.Expires = now.Add(time.Duration(in.Expires))
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

// bounds are those that the input writes, nil where it writes none.
func (in TokenCreateInput) bounds(ctx context.Context, env *op.Env) (*token.Bounds, error) {
	if len(in.Workspaces) == 0 && in.CeilingFile == "" && in.SpecFile == "" {
		return nil, nil
	}
	if err := errors.Join(env.MayRead("ceiling_file", in.CeilingFile), env.MayRead("spec_file", in.SpecFile)); err != nil {
		return nil, err
	}
	dirs, err := realDirs(env, in.Workspaces)
	if err != nil {
		return nil, err
	}
	spec := policy.Spec{}
	if in.SpecFile != "" {
		if spec, err = env.ReadSpec(ctx, "spec_file", in.SpecFile); err != nil {
			return nil, err
		}
	}
	if len(dirs) > 0 {
		spec.Workspace.Source = dirs[0]
	}
	if spec.Workspace.Source == "" && spec.Backend != policy.BackendWrapper {
		return nil, &policy.FieldError{Field: "workspaces", Reason: "nothing says where the default sandbox works", Hint: "name a directory: --workspace DIR"}
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
		if !ceiling.Holds(m) { // what the principal may change is what was written, and no more
			field := "workspaces"
			if len(dirs) == 0 {
				field = "spec_file"
			}
			return nil, &policy.FieldError{Field: field, Value: spec.Workspace.Source, Reason: "it is a linked worktree of the repository in " + m.Source + ", which the principal could change with it",
				Hint: "where that is meant, put " + m.Source + " into the mounts of a ceiling: --ceiling FILE; else name another directory"}
		}
	}
	return &token.Bounds{Ceiling: *ceiling, Default: spec}, nil
}

// ceiling is the file's, else what the default sandbox has, and the workspaces.
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

// realDirs are directories by the names that hold under a ceiling, where no link
// is followed.
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
			return nil, refuse("it is no directory")
		}
		dirs = append(dirs, way.Path)
	}
	return dirs, nil
}

func tokenOutput(h token.Holder, now time.Time) TokenOutput {
	out := TokenOutput{ID: h.Token.ID, Principal: h.Token.Principal, Created: h.Token.Created, Expired: h.Token.Expired(now)}
	if h.Bounds != nil {
		out.Workspace = h.Bounds.Default.Workspace.Source
	}
	if !h.Token.Expires.IsZero() {
		out.Expires = &h.Token.Expires
	}
	return out
}

// renderTokenCreate prints the token alone on its first line, for scripts.
func renderTokenCreate(w io.Writer, out TokenCreateOutput) error {
	_, err := fmt.Fprintf(w, "%s\n\nid         %s\nprincipal  %s\nworkspace  %s\nexpires    %s\n\nIt is shown this once. Clients send it as \"Authorization: Bearer TOKEN\".\n",
		out.Token, out.ID, out.Principal, out.Workspace, expiryText(out.TokenOutput))
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

// tokens is the store that the door opens.
func tokens(e *op.Env) (*token.Store, error) {
	if e.Tokens == nil {
		return nil, &paddock.Error{Message: "cannot use tokens: this door has no store of them"}
	}
	return e.Tokens()
}
