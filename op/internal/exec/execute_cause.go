package exec

import (
	"path"
	"regexp"
	"strings"

	"github.com/paddock-dev/paddock/policy"
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
