package op

import (
	"errors"
	"path"
	"regexp"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

// hostPaths are absolute paths in a message.
var hostPaths = regexp.MustCompile(`(^|[\s"'(=:])(/[^\s"'():,;]*)`)

// cause is what went wrong, without the host's paths: of each the last name
// is left, but for those inside that a command knows anyway.
func (x *execution) cause(err error) string {
	text := strings.ReplaceAll(err.Error(), x.spec.Workspace.Source, policy.WorkspacePath)
	text = strings.ReplaceAll(text, "\n", "; ")
	return hostPaths.ReplaceAllStringFunc(text, func(found string) string {
		i := strings.IndexByte(found, '/')
		before, name := found[:i], found[i:]
		for _, known := range []string{policy.WorkspacePath, policy.TmpPath} {
			if name == known || strings.HasPrefix(name, known+"/") && known == policy.WorkspacePath {
				return found
			}
		}
		return before + path.Base(name)
	})
}

// HintOf is what an error says to do about it, empty where it says nothing.
func HintOf(err error) string {
	field, start, own := (*policy.FieldError)(nil), (*backend.StartError)(nil), (*paddock.Error)(nil)
	denied, tokens := (*privilege.Denied)(nil), (*token.UnavailableError)(nil)
	var fixed interface{ Remedy() string } // an error whose text a contract fixes
	switch {
	case errors.As(err, &tokens):
		return tokens.Hint
	case errors.As(err, &denied):
		return denied.Hint
	case errors.As(err, &field):
		return field.Hint
	case errors.As(err, &start):
		return start.Hint
	case errors.As(err, &own):
		return own.Hint
	case errors.As(err, &fixed):
		return fixed.Remedy()
	}
	return ""
}
