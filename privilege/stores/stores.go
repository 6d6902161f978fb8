// Package stores opens any store of privileges by one text, and says who the
// local user is to it. It is for programs: it links every kind of store.
package stores

import (
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/redis"
)

// Env names the environment variable that says where privileges are kept.
const Env = "PADDOCK_PRIVILEGES"

// FileName is the name of the file in the state directory where privileges are
// kept if nothing else is said.
const FileName = "privileges.json"

// Open opens the store at where: the path of a file, the URL of a Redis server
// (redis://, rediss://, unix://), or empty for [FileName] in the state
// directory. See [privilege.OpenFile] and [redis.Open].
func Open(where string) (privilege.Store, error) {
	if isURL(where) {
		s, err := redis.Open(where)
		if err != nil {
			return nil, err // not a nil *Store in an interface
		}
		return s, nil
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
	if who.Admin || isURL(where) {
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

// isURL says that where is no path. Any scheme will do: one that nobody knows
// must not become the name of a file.
func isURL(where string) bool { return strings.Contains(where, "://") }
