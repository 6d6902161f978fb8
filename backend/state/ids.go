//go:build linux

package state

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// The range of host ids that root lends to sandboxes, and as many after it, which their egress
// processes have. It lies above every id that distributions give to users, services and
// containers (systemd's list of ranges ends at 0x6FFFFFFF). Paddock's state has a file for each
// id that is lent, ids/<uid>, with the id of the sandbox that has it.
const (
	LentFirst = 0x70000000
	LentCount = 1 << 16
)

// LendID reserves a host id that no other sandbox has.
func (d *Dir) LendID() (uint32, error) {
	dir := filepath.Join(d.Root, IDsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, backend.Failed("identity", "create", dir, err, hostpath.RoomHint(err, d.Root))
	}
	for range 64 {
		n, err := rand.Int(rand.Reader, big.NewInt(LentCount))
		if err != nil {
			return 0, backend.Failed("identity", "choose", "", err, "")
		}
		uid := LentFirst + uint32(n.Int64())
		f, err := os.OpenFile(IDFile(d.Root, uid), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, backend.Failed("identity", "create", dir, err, hostpath.RoomHint(err, d.Root))
		}
		_, err = f.WriteString(d.ID + "\n")
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			ReturnID(d.Root, uid)
			return 0, backend.Failed("identity", "write", dir, err, hostpath.RoomHint(err, d.Root))
		}
		return uid, nil
	}
	return 0, backend.Failed("identity", "choose", dir, errors.New("no free host id was found"), "end some sandboxes")
}

// IDFile returns the file of a lent id.
func IDFile(root string, uid uint32) string {
	return filepath.Join(root, IDsDir, strconv.FormatUint(uint64(uid), 10))
}

// ReturnID frees an id that was lent. It does nothing with other ids.
func ReturnID(root string, uid uint32) {
	if uid >= LentFirst {
		_ = os.Remove(IDFile(root, uid))
	}
}

// maxBorrower is the largest size of a file below ids, in bytes.
const maxBorrower = 4096

// sweepIDs frees host ids whose sandbox is gone, or was never recorded because its owner
// was killed.
func sweepIDs(root string) {
	dir, err := OpenDir(root, IDsDir)
	if err != nil {
		return // none was lent: Check has refused anything else
	}
	defer dir.Close()
	for _, name := range Some(dir, swept) {
		info, err := dir.Lstat(name)
		if uid, nerr := strconv.ParseUint(name, 10, 32); err != nil || nerr != nil || uid < LentFirst || time.Since(info.ModTime()) < settle {
			continue
		}
		borrower, err := hostpath.Read(context.Background(), root, filepath.Join(IDsDir, name), maxBorrower)
		if id := strings.TrimSpace(string(borrower)); err == nil && (id == "" || !Exists(filepath.Join(root, sandboxesDir, id))) {
			_ = dir.Remove(name)
		}
	}
}
