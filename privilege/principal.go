package privilege

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

// MaxName bounds the name of a principal, in bytes.
const MaxName = 128

// Principal is who asks.
type Principal struct {
	// Name identifies the principal in the store ([CheckName]).
	Name string
	// Admin says that the configuration of the door, or the ownership of the store, makes
	// this principal an administrator, who holds every privilege but [UnsandboxedExec]. That
	// one must be granted.
	Admin bool
}

// CheckName returns an error for an invalid name of a principal. A name is 1 to 128 ASCII
// letters, digits and the characters . _ @ : -
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

// passwd is the system's list of users.
const passwd = "/etc/passwd"

// maxPasswd bounds how much of it is read, in bytes.
const maxPasswd = 1 << 20

// Local returns the user who runs this program: "user:NAME", by the effective uid and
// /etc/passwd, or "uid:N" if no name there belongs to this uid alone. Unlike os/user it
// ignores the environment. Root is an administrator; whether another user is depends on the
// store ([Owned]).
func Local() *Principal {
	uid := os.Geteuid()
	p := &Principal{Name: "uid:" + strconv.Itoa(uid), Admin: uid == 0}
	file, err := os.Open(passwd)
	if err != nil {
		return p
	}
	defer file.Close()
	if name := nameIn(io.LimitReader(file, maxPasswd), strconv.Itoa(uid)); name != "" && CheckName("user:"+name) == nil {
		p.Name = "user:" + name
	}
	return p
}

// ModelOf returns the principal for a model that acts for a user: "model:" and the user's
// name. It is separate because a model must not get its user's rights: it is not an
// administrator, and holds only privileges that were granted to its own name.
func ModelOf(user *Principal) *Principal {
	return &Principal{Name: "model:" + strings.TrimPrefix(user.Name, "user:")}
}

// nameIn returns the first name of uid in a list of users. It returns "" if there is none, or
// if another uid has the same name.
func nameIn(list io.Reader, uid string) string {
	uids := make(map[string]string) // by name
	found := ""
	for lines := bufio.NewScanner(list); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 4 {
			continue
		}
		name, number := fields[0], fields[2]
		if other, again := uids[name]; again && other != number {
			number = "several"
		}
		uids[name] = number
		if number == uid && found == "" {
			found = name
		}
	}
	if uids[found] != uid {
		return ""
	}
	return found
}
