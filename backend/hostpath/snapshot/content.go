package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
)

// errPointer is why a file that names a repository was not read.
var errPointer = errors.New("the repository that it names was not looked at: it is too large, or one of too many")

// read takes the hash of a file, or, of one that has not changed, what it was.
func (l *look) read(p place, name string, st *unix.Stat_t, i *item) {
	i.weak = !p.trusted || p.dev != uint64(st.Dev) //nolint:unconvert // differs between platforms
	if was, there := l.before[p.path(name)]; there && !i.weak && was.kind == isFile && was.id == i.id && !was.fresh && (was.to != "" || was.repository == "") {
		i.sum, i.perm, i.to, i.repository, i.harmless = was.sum, was.perm, was.to, was.repository, was.harmless
		return
	}
	names := i.by.Path == ".git" || i.by.Path == "commondir" // a repository
	switch {
	case names && (st.Size > gitconfig.MaxPathFile || l.pointers.Add(1) > maxPointers):
		l.missed(p.root, path.Join(p.rel, name), errPointer)
		return
	case !names && (st.Size > maxHashed || l.hashed.Add(1) > maxHashedMany || l.hashedBytes.Add(st.Size) > maxHashedSum):
		return
	}
	fd, err := dirfd.Open(p.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return // id tells a change
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var now unix.Stat_t
	if unix.Fstat(fd, &now) != nil || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHashed+1))
	if err != nil || len(text) > maxHashed {
		return
	}
	i.leads(p.path(name), string(text))
	if name == "package.json" || i.by.Path == "package.json" {
		i.perm, text = 0, executed(text)
	}
	sum := sha256.Sum256(text)
	i.sum = hex.EncodeToString(sum[:16])
}

// executed returns what of a package.json is executed, all of it where that is not
// to be told.
func executed(text []byte) []byte {
	// A map, since keys that differ in case are different ones to npm.
	var all map[string]json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return text
	}
	var b bytes.Buffer
	for _, key := range []string{"scripts", "config", "bin", "main", "type", "packageManager", "devEngines", "workspaces", "husky", "lint-staged", "simple-git-hooks", "pre-commit", "gitHooks", "overrides", "pnpm", "eslintConfig", "jest", "babel", "prettier"} {
		if v, there := all[key]; there {
			b.WriteString(key + "=")
			if json.Compact(&b, v) != nil {
				return text
			}
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// readLink returns the text of a link in an open directory, "" where there is no link.
func readLink(dir int, name string) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// linkText returns a hash of the text of a link, "" where there is no link.
func linkText(dir int, name string) string {
	text := readLink(dir, name)
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// leadsIntoGit reports whether the text of a link has ".git" among its names. One of
// git-annex's, to the content of a file, does not count.
func leadsIntoGit(dir int, name string) bool {
	text := readLink(dir, name)
	if !slices.Contains(strings.Split(text, "/"), ".git") {
		return false
	}
	var st unix.Stat_t
	return !strings.Contains(text, ".git/annex/objects/") || leadsBy(text, "/") == "" ||
		unix.Fstatat(dir, name, &st, 0) == nil && st.Mode&unix.S_IFMT != unix.S_IFREG
}

// settled reports whether any later change would have another time.
func (l *look) settled(st *unix.Stat_t) bool {
	return time.Unix(st.Ctim.Unix()).Add(margin).Before(l.began)
}

// identity changes with each change of a file. The device is not in it: its
// number may be another one after the host's next start.
func identity(st *unix.Stat_t) string {
	return fmt.Sprintf("%x.%x.%x.%x", st.Ino, st.Size, st.Ctim.Nano(), st.Mtim.Nano())
}
