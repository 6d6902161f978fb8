package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

// TokenListInput asks which tokens there are.
type TokenListInput struct {
	Principal string `json:"principal,omitempty" arg:"PRINCIPAL" max:"128" help:"those of this one alone"`
}

// TokenListOutput is the tokens, without what would let anybody in.
type TokenListOutput struct {
	Tokens []TokenOutput `json:"tokens"`
}

func tokenListOp() op.Op {
	return op.New(op.Desc{
		Name:    "token_list",
		CLI:     []string{"token", "list"},
		Local:   true,
		Summary: "Say which tokens there are, and whom they let in",
		Doc: `Say which tokens "paddock mcp --http" takes: the ID of each, its principal, the
workspace of the principal's default sandbox, when it was made and when it
expires. The token itself is kept nowhere. One that has expired is shown for a
week and more, until the next is made.`,
		Examples: "  paddock token list\n  paddock token list agent:ann",
		Hints:    op.Hints{ReadOnly: true, Idempotent: true},
	}, tokenList, renderTokenList)
}

func tokenList(_ context.Context, env *op.Env, in TokenListInput, _ *op.Stream) (TokenListOutput, error) {
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

func renderTokenList(w io.Writer, out TokenListOutput) error {
	if len(out.Tokens) == 0 {
		_, err := fmt.Fprintln(w, "there is no token")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, t := range out.Tokens {
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\tmade %s\texpires %s\n",
			t.ID, t.Principal, t.Workspace, t.Created.Format(time.DateOnly), expiryText(t))
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

// TokenRevokeInput says which tokens end.
type TokenRevokeInput struct {
	// ID is bounded so that a whole token by mistake is refused before anything
	// is put on record.
	ID        string `json:"id,omitempty" arg:"ID" max:"8" help:"the token's ID, as lists show it"`
	Principal string `json:"principal,omitempty" flag:"principal" arg:"PRINCIPAL" max:"128" help:"all tokens of this one"`
}

// TokenRevokeOutput is what ended.
type TokenRevokeOutput struct {
	Revoked []TokenOutput `json:"revoked"`
}

func tokenRevokeOp() op.Op {
	return op.New(op.Desc{
		Name:    "token_revoke",
		CLI:     []string{"token", "revoke"},
		Local:   true,
		Summary: "End a token: whoever holds it comes in no more",
		Doc: `End a token, or all of a principal. A running server refuses it from the next
request on, and within seconds ends what is running for it: its sessions and,
with the principal's last token, the principal's sandboxes. It needs
ALTER_PRIVILEGES.`,
		Examples: "  paddock token revoke k3qzt7ab\n  paddock token revoke --principal agent:ann",
		Needs:    privilege.AlterPrivileges,
		Hints:    op.Hints{Frees: true, Destructive: true},
	}, tokenRevoke, renderTokenRevoke)
}

func tokenRevoke(ctx context.Context, env *op.Env, in TokenRevokeInput, _ *op.Stream) (TokenRevokeOutput, error) {
	if (in.ID == "") == (in.Principal == "") {
		return TokenRevokeOutput{}, &policy.FieldError{Field: "id", Value: in.ID, Reason: "name either one token by its ID, or a principal", Hint: "paddock token list"}
	}
	store, err := tokens(env)
	if err != nil {
		return TokenRevokeOutput{}, err
	}
	gone, err := store.Revoke(ctx, in.ID, in.Principal)
	if errors.Is(err, token.ErrNoToken) {
		return TokenRevokeOutput{}, &paddock.Error{Message: "cannot revoke a token: there is none of this name", Hint: "paddock token list"}
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

func renderTokenRevoke(w io.Writer, out TokenRevokeOutput) error {
	for _, t := range out.Revoked {
		if _, err := fmt.Fprintf(w, "revoked %s of %s\n", t.ID, t.Principal); err != nil {
			return err
		}
	}
	return nil
}
