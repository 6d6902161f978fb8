package protect

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
	"github.com/paddock-dev/paddock/backend/hostpath/snapshot"
)

// changeableLinkError is a symbolic link that commands can replace.
type changeableLinkError struct{ at string }

func (e *changeableLinkError) Error() string { return e.at + " is a symbolic link" }

// statCache holds what Lstat has said of directories and links. The rest of a
// path is looked at once anyway.
type statCache map[string]statAnswer

type statAnswer struct {
	info fs.FileInfo
	err  error
}

func (c statCache) lstat(at string) (fs.FileInfo, error) {
	if a, ok := c[at]; ok {
		return a.info, a.err
	}
	info, err := os.Lstat(at)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG) {
		err = fs.ErrNotExist
	}
	c[at] = statAnswer{info, err}
	return info, err
}

func (c statCache) exists(at string) bool {
	_, err := c.lstat(at)
	return err == nil
}

// mayHave reports whether a directory can have the path of a read-only entry: by
// the names in it and in those below it, in whatever case, since a file system may
// make no difference. Behind a link, and where there are too many names, it can.
func (p *protector) mayHave(dir, rel string) bool {
	for {
		part, rest, more := strings.Cut(rel, "/")
		names, ok := p.listed[dir]
		if !ok {
			names = listParts(dir)
			p.listed[dir] = names
		}
		if names == nil || !more {
			return names == nil || names[strings.ToLower(part)]
		}
		if !names[strings.ToLower(part)] {
			return false
		}
		dir, rel = filepath.Join(dir, part), rest
	}
}

// listParts lists the names in a directory of which paths of read-only entries
// consist, in small letters, nil where it cannot.
func listParts(dir string) map[string]bool {
	fd, err := dirfd.Open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	names, all, parts := map[string]bool{}, 0, snapshot.Inventory().Parts
	err = dirfd.EachName(fd, func(name []byte, _ byte) bool {
		if low := bytes.ToLower(name); parts[string(low)] {
			names[string(low)] = true
		}
		all++
		return all < maxDirEntries
	})
	if err != nil || all == maxDirEntries {
		return nil
	}
	return names
}

// resolve follows the links of an absolute path as far as commands cannot
// replace them; the first that they can is a [*changeableLinkError]. A link that is
// mounted, as around a sandbox in a sandbox, they cannot replace. Where nothing is
// there, the path is what it will be.
func (p *protector) resolve(name string) (string, fs.FileInfo, error) {
	at, rest, links := "/", strings.Split(filepath.Clean(name), "/"), 0
	info, err := p.seen.lstat("/")
	for len(rest) > 0 && err == nil {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			info, err = p.seen.lstat(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err = p.seen.lstat(next)
		if err != nil {
			at = next
			break
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if p.below(next) && !p.guarded(next) && !dirfd.IsMount(next) {
			return next, info, &changeableLinkError{next}
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > hostpath.MaxLinks {
			return next, nil, errors.Join(err, unix.ELOOP)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	return filepath.Join(append([]string{at}, rest...)...), info, err
}

// find is resolve for what is only compared where the operator has opened it: then it
// goes over links that commands can replace, too.
func (p *protector) find(name, opens string) (string, fs.FileInfo, error) {
	found, info, err := p.resolve(name)
	var link *changeableLinkError
	if !p.opened(opens) || !errors.As(err, &link) {
		return found, info, err
	}
	p.watch(link.at)
	end := hostpath.Real(name)
	if end == "" {
		return found, nil, fs.ErrNotExist
	}
	info, err = os.Lstat(end)
	return end, info, err
}
