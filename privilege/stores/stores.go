// Package stores opens any store of privileges by one text, and says who the
// local user is to it. Stores on servers are opened by whoever links the
// client: a program that has none pays for none.
package stores

import (
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock"
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

func filePath(where string) (string, error) {
	if where != "" {
		return where, nil
	}
	dir, err := paddock.DefaultStateDir()
	return filepath.Join(dir, FileName), err
}

// IsRemote says that where is a URL and no path. Any scheme will do: one that
// nobody knows must not become the name of a file.
func IsRemote(where string) bool { return strings.Contains(where, "://") }
