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

// passwd is the system's list of users.
const passwd = "/etc/passwd"

// maxPasswd bounds what is read of it, in bytes.
const maxPasswd = 1 << 20

// Local is the user who runs this program: "user:NAME", by the effective uid
// and the system's list of users in /etc/passwd, or "uid:N" where the list has
// no name that is this uid's alone. No variable of the environment has a say,
// as it would with os/user. Root is an administrator; whether somebody else is
// depends on the store ([Owned]).
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

// ModelOf is who a model is that user lets ask in their place: "model:" and the
// user's name. It has a name of its own because what a user may do is not for a
// model to use: it is no administrator, and holds what its name was granted alone.
func ModelOf(user *Principal) *Principal {
	return &Principal{Name: "model:" + strings.TrimPrefix(user.Name, "user:")}
}

// nameIn is the first name that a list of users has for uid, or "" where there
// is none, or where another uid has the same name.
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
