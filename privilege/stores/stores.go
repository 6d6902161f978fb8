// Package stores opens a store of privileges by its address, and returns the local user as a
// principal of it. The caller opens stores on servers, so that only programs that need a
// client of the server link one.
package stores

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/privilege"
)

// Env names the environment variable with the address of the privilege store.
const Env = "PADDOCK_PRIVILEGES"

// FileName is the name of the default store, a file in the state directory.
const FileName = "privileges.json"

// Open opens the store at where: the path of a file ([privilege.OpenFile]), the URL of a
// server, which remote opens, or empty for [FileName] in the state directory.
func Open(where string, remote func(address string) (privilege.Store, error)) (privilege.Store, error) {
	if IsRemote(where) {
		return remote(where)
	}
	path, err := filePath(where)
	if err != nil {
		return nil, err
	}
	return privilege.OpenFile(path)
}

// Local returns the local user as a principal of the store at where. Root and the owner of
// the file are administrators.
func Local(where string) *privilege.Principal {
	who := privilege.Local()
	if who.Admin || IsRemote(where) {
		return who
	}
	path, err := filePath(where)
	who.Admin = err == nil && privilege.Owned(path)
	return who
}

// filePath returns the path of the file. A path that commands of a sandbox could have created
// is refused: they could grant themselves anything.
func filePath(where string) (string, error) {
	dir, err := paddock.DefaultStateDir()
	if where == "" {
		return filepath.Join(dir, FileName), err
	}
	way, err := hostpath.Trust(hostpath.List(dir), backend.OwnFile{Path: where, What: "the file of privileges", Field: Env})
	if err != nil {
		return "", &privilege.Unavailable{Store: strconv.Quote(where), Cause: err, Hint: hostpath.Hint(err)}
	}
	if n := len(way.Links); n > 0 && way.Links[n-1].Path == filepath.Clean(where) {
		return where, nil // the file itself is a link, which OpenFile refuses
	}
	return way.Path, nil
}

// IsRemote reports whether where is a URL, of any scheme: an unknown scheme must not become
// the name of a file.
func IsRemote(where string) bool { return strings.Contains(where, "://") }
