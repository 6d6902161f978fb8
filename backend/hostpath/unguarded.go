package hostpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend"
)

// closed refuses a directory of a mount, above a path that is to be protected, that
// its owner may not enter: commands can close what is theirs, and who mounts the
// protection has no more rights inside than they.
func (p *protector) closed(at string) error {
	m, above := p.mountOf(at), filepath.Dir(at)
	rel, in := Within(above, m.Source)
	if !in || p.entered[above] {
		return nil
	}
	dir := m.Source
	for name := range strings.SplitSeq("./"+rel, "/") {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode()&0o100 == 0 {
			return Refuse(m.Field, m.Source, Printable(fmt.Sprintf("%s cannot be entered (mode %04o), so that %s cannot be protected", dir, info.Mode().Perm(), at)),
				Printable("look at it, and give it back: chmod u+rwx "+dir))
		}
	}
	p.entered[above] = true
	return nil
}

// unguarded is the error for a path that cannot be protected.
func (p *protector) unguarded(at, name string, err error) error {
	if err := p.closed(at); err != nil {
		return err
	}
	m := p.mountOf(at)
	rel, inside := Within(at, m.Source)
	if !inside {
		rel = at
	}
	var link *changeableLinkError
	if !errors.As(err, &link) {
		return &backend.StartError{Stage: "plan", Op: "protect", Object: Printable(rel), Cause: Reason(err)}
	}
	m = p.mountOf(link.at)
	where, _ := Within(link.at, m.Source)
	return Refuse(m.Field, m.Source, where+" is a symbolic link, so "+rel+" cannot be protected", p.remedy(name, "replace the link"))
}
