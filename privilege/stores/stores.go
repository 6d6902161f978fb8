// Package stores opens any store of privileges by one text, and says who the
// local user is to it. Stores on servers are opened by whoever links the
// client: a program that has none pays for none.
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

// Env names the environment variable that says where privileges are kept.
const Env = "PADDOCK_PRIVILEGES"

// FileName is the name of the file in the state directory where privileges are
// kept if nothing else is said.
const FileName = "privileges.json"

// Open opens the store at where: the path of a file ([privilege.OpenFile]), the
// URL of a server, which is for remote to open, or empty for [FileName] in the
// state directory.
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

// Local is the local user as a principal of the store at where. Root is an
// administrator; so is whose file it is.
func Local(where string) *privilege.Principal {
	who := privilege.Local()
	if who.Admin || IsRemote(where) {
		return who
	}
	path, err := filePath(where)
	who.Admin = err == nil && privilege.Owned(path)
	return who
}

// filePath is where the file is. One that commands of a sandbox could have put
// there is refused: they could grant themselves anything.
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
		return where, nil // a link in its place, which is refused
	}
	return way.Path, nil
}

// IsRemote says that where is a URL and no path. Any scheme will do: one that
// nobody knows must not become the name of a file.
func IsRemote(where string) bool { return strings.Contains(where, "://") }
