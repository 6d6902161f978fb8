// Package admin has the operations of administrators: on privileges, tokens, rules for
// commands, and the audit log.
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

type AlterPrivilegesInput struct {
	Action     string   `json:"action" arg:"ACTION" help:"grant (or add, give, allow), revoke (or remove, take, deny) or set (or replace)"`
	Principal  string   `json:"principal,omitempty" arg:"PRINCIPAL" help:"whose privileges change: user:NAME for a local user"`
	Privileges []string `json:"privileges,omitempty" arg:"NAME..." help:"privileges by name, bit_N or mask (0x4)"`
	User       string   `json:"user,omitempty" flag:"user" arg:"PRINCIPAL" help:"the same as principal"`
	Mask       *string  `json:"mask,omitempty" flag:"mask" arg:"MASK" help:"the privileges as a mask, such as 0x4 or 4, in addition to the names or instead of them"`
}

// AlterPrivilegesOutput is the output of alter_privileges: the principal's privileges before
// and now.
type AlterPrivilegesOutput struct {
	Action    string `json:"action"` // grant, revoke or set
	Principal string `json:"principal"`
	Changed   bool   `json:"changed"`
	Before    Grants `json:"before"`
	After     Grants `json:"after"`
}

// Grants are privileges, by name and as a mask.
type Grants struct {
	Names []string      `json:"names"`
	Mask  privilege.Set `json:"mask"`
}

func grantsOf(s privilege.Set) Grants { return Grants{s.Names(), s} }

func (g Grants) String() string {
	if g.Mask == 0 {
		return "none"
	}
	return strings.Join(g.Names, " ") + " (" + g.Mask.String() + ")"
}

func (AlterPrivilegesInput) Desc() op.Desc {
	return op.Desc{
		Name:    "alter_privileges",
		CLI:     []string{"privilege"},
		Summary: "Grant privileges to a principal, or revoke them",
		Doc: `Change what a principal may do on the host itself. "grant" adds privileges,
"revoke" removes them, "set" replaces all by those that are named, or by none.

  ALTER_PRIVILEGES   change privileges, also one's own
  UNSANDBOXED_EXEC   reach the host outside every sandbox

It needs ALTER_PRIVILEGES. On the command line, root and the owner of the file with
the privileges are administrators: they hold ALTER_PRIVILEGES, but not
UNSANDBOXED_EXEC until they grant it to themselves.

Privileges are kept in privileges.json in the state directory, or in the file or
Redis server (redis://, rediss://, unix://) that $PADDOCK_PRIVILEGES or --privileges
names. "paddock privilege list" shows them.`,
		Examples: `  paddock privilege grant user:ann UNSANDBOXED_EXEC
  paddock privilege revoke user:ann UNSANDBOXED_EXEC
  paddock privilege set user:ann`,
		Needs: privilege.AlterPrivileges,
		Hints: op.Hints{Destructive: true, Idempotent: true},
	}
}

func (in AlterPrivilegesInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (AlterPrivilegesOutput, error) {
	who, whoErr := in.principal()
	set, setErr := in.set()
	action, change, err := in.change(set)
	if err := errors.Join(err, whoErr, setErr); err != nil {
		return AlterPrivilegesOutput{}, err
	}
	store, err := privileges(env)
	if err != nil {
		return AlterPrivilegesOutput{}, err
	}
	before, after, err := store.Update(ctx, who, change)
	if err != nil {
		return AlterPrivilegesOutput{}, storeError(err)
	}
	return AlterPrivilegesOutput{action, who, before != after, grantsOf(before), grantsOf(after)}, nil
}

// principal returns the principal that either field names.
func (in AlterPrivilegesInput) principal() (string, error) {
	name := in.Principal
	if name == "" {
		name = in.User
	}
	switch {
	case name == "":
		return "", &policy.FieldError{Field: "principal", Reason: "it is missing",
			Hint: "name whose privileges change: user:NAME for a local user"}
	case in.User != "" && in.User != name:
		return "", &policy.FieldError{Field: "user", Value: in.User, Reason: "principal is " + in.Principal, Hint: "give one of the two"}
	}
	return name, privilege.CheckName(name)
}

func (in AlterPrivilegesInput) set() (privilege.Set, error) {
	set, err := privilege.Parse(in.Privileges...)
	if err != nil || in.Mask == nil {
		return set, err
	}
	mask, err := privilege.ParseMask(*in.Mask)
	return set | mask, err
}

// change returns the action, and the function that applies it to a principal's privileges.
func (in AlterPrivilegesInput) change(set privilege.Set) (action string, change func(privilege.Set) privilege.Set, err error) {
	switch strings.ToLower(in.Action) {
	case "grant", "add", "give", "allow":
		action, change = "grant", func(old privilege.Set) privilege.Set { return old | set }
	case "revoke", "remove", "take", "deny":
		action, change = "revoke", func(old privilege.Set) privilege.Set { return old &^ set }
	case "set", "replace":
		return "set", func(privilege.Set) privilege.Set { return set }, nil
	default:
		return "", nil, &policy.FieldError{Field: "action", Value: in.Action, Reason: "it is neither grant, revoke nor set"}
	}
	if len(in.Privileges) == 0 && in.Mask == nil {
		return "", nil, &policy.FieldError{Field: "privileges", Reason: "there is nothing to " + action,
			Hint: "the names are " + strings.Join(privilege.Known(), ", ")}
	}
	return action, change, nil
}

func (out AlterPrivilegesOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "principal  %s\nbefore     %s\nafter      %s\n", out.Principal, out.Before, out.After)
	return err
}

type PrivilegeListInput struct {
	Principal string `json:"principal,omitempty" arg:"PRINCIPAL" help:"only this principal; any other than oneself needs ALTER_PRIVILEGES"`
}

type PrivilegeListOutput struct {
	Principals []PrincipalGrants `json:"principals"`
}

// PrincipalGrants are the privileges of one principal.
type PrincipalGrants struct {
	Principal string `json:"principal"`
	Grants
}

func (PrivilegeListInput) Desc() op.Desc {
	return op.Desc{
		Name:    "privilege_list",
		CLI:     []string{"privilege", "list"},
		Summary: "List the privileges of principals",
		Doc: `List the privileges of each principal: their names, and the mask that has them. A
privilege without a name is bit_N. Without ALTER_PRIVILEGES, only one's own
privileges are listed.`,
		Examples: `  paddock privilege list
  paddock privilege list user:ann`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in PrivilegeListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (PrivilegeListOutput, error) {
	// A principal without the privilege sees its own, unless it asked for more.
	mayAlter := privilege.CheckOpened(ctx, env.Privileges, env.Principal, privilege.AlterPrivileges)
	denied := (*privilege.Denied)(nil)
	if errors.As(mayAlter, &denied) {
		own := denied.Missing != 0 && (in.Principal == "" || in.Principal == env.Principal.Name)
		if !own {
			return PrivilegeListOutput{}, mayAlter
		}
		in.Principal = env.Principal.Name
	}
	store, err := privileges(env)
	if err != nil {
		return PrivilegeListOutput{}, err
	}
	if in.Principal == "" {
		all, err := store.List(ctx)
		return listed(all), storeError(err)
	}
	if err := privilege.CheckName(in.Principal); err != nil {
		return PrivilegeListOutput{}, err
	}
	held, err := store.Get(ctx, in.Principal)
	if err != nil {
		return PrivilegeListOutput{}, storeError(err)
	}
	return listed(map[string]privilege.Set{in.Principal: held}), nil
}

func listed(all map[string]privilege.Set) PrivilegeListOutput {
	out := PrivilegeListOutput{Principals: []PrincipalGrants{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out.Principals = append(out.Principals, PrincipalGrants{name, grantsOf(all[name])})
	}
	return out
}

func (out PrivilegeListOutput) Render(w io.Writer) error {
	if len(out.Principals) == 0 {
		_, err := fmt.Fprintln(w, "no privileges are granted")
		return err
	}
	return output.Table(w, func(row output.Row) {
		for _, p := range out.Principals {
			row("%s\t%s\t%s", p.Principal, p.Mask, text.OrNone(strings.Join(p.Names, " ")))
		}
	})
}

// privileges opens the store of privileges.
func privileges(e *op.Env) (privilege.Store, error) {
	if e.Privileges == nil {
		return nil, &paddock.Error{Message: "cannot use privileges: this door has no store of them"}
	}
	store, err := e.Privileges()
	return store, storeError(err)
}

// storeError adds the hint to an error of the store.
func storeError(err error) error {
	if u := (*privilege.Unavailable)(nil); errors.As(err, &u) {
		return &paddock.Error{Message: err.Error(), Hint: u.Hint}
	}
	return err
}
