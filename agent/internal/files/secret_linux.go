package files

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/wire"
)

const (
	// SecretPath is the path of the secrets in answers, if Shown is empty.
	SecretPath = "/run/pyro-secrets"
	// secretPrefix begins the name of a set that is being made.
	secretPrefix = ".paddock-secrets-"
	// maxSecretArchive bounds an archive of secrets, in bytes.
	maxSecretArchive = 16 << 20
)

// Secrets are the secrets of a sandbox: those that have a name, and the directory of those
// that are files, which is a name in an open directory.
type Secrets struct {
	parent func() (beneath.Dir, error)
	name   string
	// Shown is the path under which commands see it, empty for SecretPath.
	Shown string

	vault *core.Vault // of all values

	lock     sync.Mutex // held while anything is replaced
	archived []string   // the values of a set that was installed as an archive
	archive  bool       // the files are such a set
	inFiles  []string   // the names of the secrets that are files, sorted
}

// SecretsAt returns the directory of secrets at a path. All names of the path but the
// last are trusted.
func SecretsAt(dir string, installed *core.Vault) *Secrets {
	return &Secrets{parent: core.OpenOnce(path.Dir(dir)), name: path.Base(dir), vault: installed}
}

// Install replaces the set of secrets. It makes the complete new set beside
// the old one, readable only by the agent's user from the first byte, and
// then exchanges the two. If it fails before that, the old set stays unchanged.
func (s *Secrets) Install(q *wire.InstallSecretsRequest, body io.Reader) (*wire.ExtractResult, error) {
	if q.ArchiveSize > maxSecretArchive {
		return nil, tooLarge(fmt.Sprintf("archive_size must be at most %d bytes", maxSecretArchive))
	}
	n, err := s.begin()
	if err != nil {
		return nil, secretError(err)
	}
	defer n.close()
	r := &wire.ExtractResult{Destination: wire.OSString(cmp.Or(s.Shown, SecretPath))}
	if r.EntryCount, err = unpack(body, false, n.add); err != nil {
		return nil, err
	}
	r.BytesWritten = n.bytes
	s.lock.Lock()
	defer s.lock.Unlock()
	if err := s.put(s.vault.Named(), n.values, n); err != nil {
		return nil, err
	}
	s.archived, s.archive, s.inFiles = n.values, r.EntryCount > 0, nil
	return r, nil
}

// put makes named secrets and archived values the ones that are hidden, and then installs
// the set of files, if there is one. The lock is held.
func (s *Secrets) put(named map[string]string, archived []string, n *newSecrets) error {
	values := slices.Clone(archived)
	for _, value := range named {
		values = append(values, core.ShownValue(value))
	}
	if err := core.CheckSecrets(values); err != nil {
		return tooLarge("cannot redact the secrets: " + err.Error())
	}
	// The values must be redacted before commands can read them.
	old, _ := s.vault.Get()
	before := s.vault.Named()
	s.vault.Set(values, named)
	if n == nil {
		return nil
	}
	if err := n.install(); err != nil {
		s.vault.Set(slices.Concat(old, values), before) // commands may see either set now
		return secretError(err)
	}
	return nil
}

func secretError(err error) error {
	var werr *wire.Error
	if errors.As(err, &werr) {
		return werr
	}
	e := wire.Errorf(wire.CodeFailed, "cannot install the secrets: %v", err)
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	return e
}

// newSecrets is a set that is being made. Root is the directory of secrets.
type newSecrets struct {
	in     beneath.Dir // the directory that it is made in
	root   beneath.Dir // the root if the set is made in it, else None
	base   string      // of the root
	name   string      // of the set
	dir    beneath.Dir
	bytes  int64
	values []string
}

// begin makes an empty set beside the root. If the root is a mount point, which cannot
// be renamed, it makes the set in the root.
func (s *Secrets) begin() (*newSecrets, error) {
	parent, err := s.parent()
	if err != nil {
		return nil, err
	}
	n := &newSecrets{in: parent, root: beneath.None, dir: beneath.None, base: s.name, name: core.HiddenName(s.prefix())}
	if root, err := parent.Walk([]string{s.name}); err == nil {
		var st unix.Statx_t
		err := unix.Statx(parent.FD(), s.name, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
		if err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			n.in, n.root = root, root
		} else {
			_ = root.Close()
		}
	}
	if err = unix.Mkdirat(n.in.FD(), n.name, 0o700); err == nil {
		n.dir, err = n.in.Walk([]string{n.name})
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (s *Secrets) prefix() string { return secretPrefix + s.name + "-" }

// Sweep removes the unfinished sets of agents that were killed. It must be called
// before another set is made.
func (s *Secrets) Sweep() {
	parent, err := s.parent()
	if err != nil {
		return
	}
	s.sweepIn(parent)
	if root, err := parent.Walk([]string{s.name}); err == nil {
		s.sweepIn(root)
		_ = root.Close()
	}
}

func (s *Secrets) sweepIn(dir beneath.Dir) {
	names, err := sortedNames(dir, s.prefix(), core.NamesAtOnce)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, s.prefix()) {
			_ = removeAny(dir, name)
		}
	}
}

// add adds a member of the archive to the set.
func (n *newSecrets) add(m *tarMember, content io.Reader) error {
	refuse := func(text string) error {
		return &wire.Error{Code: wire.CodeBadRequest, Object: m.name, Message: text + ": " + m.name}
	}
	var err error
	switch {
	case m.kind == wire.TypeDirectory:
		var dir beneath.Dir
		if dir, err = n.dir.MakeAll(m.names, 0o700, nil); err == nil {
			err = dir.Close()
		}
	case m.kind == wire.TypeFile:
		err = n.file(m, content)
	case m.kind == wire.TypeSymlink || m.hard:
		return refuse("secret archive may not contain links")
	default:
		return refuse("unsupported secret archive member type")
	}
	var errno unix.Errno
	switch {
	case errors.As(err, &errno):
		return secretError(err)
	case err != nil:
		return badArchive(err)
	}
	return nil
}

func (n *newSecrets) file(m *tarMember, content io.Reader) error {
	dir, err := n.dir.MakeAll(m.names[:len(m.names)-1], 0o700, nil)
	if err != nil {
		return err
	}
	defer dir.Close()
	if m.size > maxSecretArchive-n.bytes {
		return tooLarge("archive is too large once it is unpacked")
	}
	name := m.names[len(m.names)-1]
	if err := unix.Unlinkat(dir.FD(), name, 0); err != nil && err != unix.ENOENT { // a later member replaces an earlier one
		return err
	}
	f, err := dir.OpenFile(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var value bytes.Buffer
	if m.size <= wire.MaxSecretBytes { // a longer one is a file rather than a value
		content = io.TeeReader(content, &value)
	}
	if err := errors.Join(core.CopyExactly(f, content, m.size), f.Close()); err != nil {
		return err
	}
	n.bytes += m.size
	if shown := core.ShownValue(value.String()); len(shown) >= wire.MinSecretBytes {
		n.values = append(n.values, shown)
	}
	return nil
}

// install replaces the root by the set.
func (n *newSecrets) install() error {
	if n.root.Valid() {
		return n.installWithin()
	}
	err := unix.Renameat2(n.in.FD(), n.name, n.in.FD(), n.base, unix.RENAME_EXCHANGE)
	if err == unix.ENOENT || err == unix.EINVAL || err == unix.ENOSYS {
		return n.replace()
	}
	return err // the old set has the new one's name now, and close removes it
}

// replace installs the set if no root exists, or if the file system cannot exchange two
// directories atomically.
func (n *newSecrets) replace() error {
	fd, aside := n.in.FD(), n.name+".old"
	err := unix.Renameat(fd, n.base, fd, aside)
	if err == unix.ENOENT {
		return unix.Renameat(fd, n.name, fd, n.base)
	}
	if err != nil {
		return err
	}
	if err := unix.Renameat(fd, n.name, fd, n.base); err != nil {
		_ = unix.Renameat(fd, aside, fd, n.base)
		return err
	}
	return unix.Renameat(fd, aside, fd, n.name)
}

// installWithin replaces the content of a root that cannot be renamed: each
// secret atomically, but not all of them together.
func (n *newSecrets) installWithin() error {
	names, err := sortedNames(n.dir, "", maxMembers)
	if err != nil {
		return err
	}
	old, err := sortedNames(n.root, "", maxMembers)
	if err != nil {
		return err
	}
	// A secret that is replaced goes to the set, from which it can be restored.
	move := func(from, to beneath.Dir, name string) error {
		if slices.Contains(old, name) {
			return exchange(n.dir.FD(), name, n.root.FD(), name) // a second call undoes the first
		}
		return unix.Renameat(from.FD(), name, to.FD(), name)
	}
	for i, name := range names {
		if err := move(n.dir, n.root, name); err != nil {
			for _, name := range names[:i] {
				_ = move(n.root, n.dir, name)
			}
			return err
		}
	}
	for _, name := range old {
		if name != n.name && !slices.Contains(names, name) {
			if err := removeAny(n.root, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeAny removes a file, or a directory with everything in it.
func removeAny(dir beneath.Dir, name string) error {
	return (&removal{top: beneath.None, count: new(int64)}).entry(dir, name, -1)
}

// close removes the directory with the set's name: the old set, or the new one if it
// was not installed.
func (n *newSecrets) close() {
	if n.dir.Valid() {
		_ = n.dir.Close()
	}
	_ = removeAny(n.in, n.name)
	if n.root.Valid() {
		_ = n.root.Close()
	}
}
