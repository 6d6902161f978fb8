package privilege

import (
	"errors"
	"os"
	"os/user"
	"strconv"
)

// MaxName bounds the name of a principal, in bytes.
const MaxName = 128

// Principal is who asks.
type Principal struct {
	// Name is what grants are written under; [CheckName] says what it may hold.
	Name string
	// Admin says that the configuration of the door, or the ownership of the
	// store, makes this principal an administrator: one holds every privilege
	// but [UnsandboxedExec], which is granted or not there.
	Admin bool
}

// CheckName refuses what cannot be the name of a principal: it has 1 to 128
// letters (of ASCII), digits and the signs . _ @ : -
func CheckName(name string) error {
	refuse := func(reason string) error {
		return errors.New("cannot use the principal " + quote(name) + ": " + reason)
	}
	if name == "" {
		return refuse("it is empty")
	}
	if len(name) > MaxName {
		return refuse("it is longer than 128 bytes")
	}
	for i := range len(name) {
		if !inName(name[i]) {
			return refuse("a name is letters, digits and the signs . _ @ : -")
		}
	}
	return nil
}

func inName(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '.' || c == '_' || c == '@' || c == ':' || c == '-'
}

// Local is the user who runs this program: "user:NAME", by the effective uid
// and the system's list of users, or "uid:N" where the list has no name for
// it. No variable of the environment has a say. Root is an administrator;
// whether somebody else is depends on the store ([File.Owned]).
func Local() *Principal {
	uid := os.Geteuid()
	p := &Principal{Name: "uid:" + strconv.Itoa(uid), Admin: uid == 0}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err == nil && CheckName("user:"+u.Username) == nil {
		p.Name = "user:" + u.Username
	}
	return p
}
