package wrap

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// The states of a login after the agent has ended.
const (
	loginSame    = "unchanged"
	loginRenewed = "renewed"
	loginRefused = "refused" // what was left of it is not written back
)

// lookTime bounds how long it takes to look at the login inside.
const lookTime = 30 * time.Second

// back writes what the agent has renewed of its login to the file on the host, and returns
// the state and, if it is refused, why.
func (c *settings) back(ctx context.Context, sandbox *paddock.Sandbox, a *agent) (state, why string) {
	after, err := look(ctx, sandbox, path.Join(policy.HomePath, c.at), a.login.file)
	var merged []byte
	if err == nil {
		if bytes.Equal(after, c.login) {
			return loginSame, ""
		}
		merged, err = a.login.merge(c.login, after)
	}
	if err == nil && merged == nil {
		return loginSame, ""
	}
	if err == nil {
		err = c.replace(ctx, merged)
	}
	if err != nil {
		return loginRefused, text.Escape(hostpath.Reason(err))
	}
	return loginRenewed, ""
}

// replace replaces the login on the host, if it still is the one that went in.
func (c *settings) replace(ctx context.Context, merged []byte) error {
	now, err := read(ctx, c.loginAt, maxLogin)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(now, c.login):
		return errors.New("it has changed on this host meanwhile")
	case !ownfile.Owned(c.loginAt):
		return errors.New("it is not a file of yours on this host")
	}
	// Commands that could change the directories on the way could have it written elsewhere.
	if _, err := hostpath.ToolFile(backend.Request{Spec: c.spec, StateDir: c.state}, "/", c.loginAt); err != nil {
		return fmt.Errorf("on this host, %w", err)
	}
	info, err := os.Lstat(c.loginAt)
	if err != nil {
		return err
	}
	return hostpath.Replace(c.loginAt, info.Mode().Perm()&0o600, merged)
}

// look reads a small regular file inside. Its archive says what it is, whatever commands
// have made of it: a link is not followed, and nothing waits for a FIFO.
func look(ctx context.Context, sandbox *paddock.Sandbox, dir, name string) ([]byte, error) {
	cmd := sandbox.Command(ctx, "tar", "-c", "--no-recursion", "-f", "-", "-C", dir, name)
	cmd.Timeout = lookTime
	var out bounded
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil && !out.full {
		return nil, errors.New("it is gone, or cannot be read")
	}
	return unpack(out.Bytes())
}

// bounded keeps as much as the archive of a login may have, and then fails, so that what
// writes more ends.
type bounded struct {
	bytes.Buffer
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n, _ := b.Buffer.Write(p[:min(len(p), maxLogin+32<<10-b.Len())])
	if b.full = b.full || n < len(p); b.full {
		return n, errors.New("it is too long")
	}
	return n, nil
}

// unpack returns the only file of an archive.
func unpack(archive []byte) ([]byte, error) {
	r := tar.NewReader(bytes.NewReader(archive))
	h, err := r.Next()
	switch {
	case err != nil:
		return nil, errors.New("it cannot be read")
	case h.Typeflag != tar.TypeReg:
		return nil, errors.New("it is no longer a regular file")
	case h.Size > maxLogin:
		return nil, fmt.Errorf("it has more than %s", policy.Size(maxLogin))
	}
	return io.ReadAll(r)
}

// maxToken bounds one renewed member, in bytes.
const maxToken = 16 << 10

// merge returns the login before, with what the agent has renewed of it, nil if that is nothing.
// It refuses what does not look like the same login of the same account.
func (l login) merge(before, after []byte) ([]byte, error) {
	old, err := parseObject(before)
	if err != nil {
		return nil, errors.New("the one on this host is not a JSON object")
	}
	renewed, err := parseObject(after)
	if err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	if err := oneMeaning(after); err != nil {
		return nil, err
	}
	if err := sameShape(old, renewed, ""); err != nil {
		return nil, err
	}
	for _, at := range l.account {
		if was, is := member(old, at), member(renewed, at); !reflect.DeepEqual(was, is) {
			return nil, errors.New(at + " is another one: this may be another account's login")
		}
	}
	for _, at := range l.tokens {
		was, _ := subject(member(old, at))
		is, err := subject(member(renewed, at))
		if err != nil {
			return nil, fmt.Errorf("%s does not say clearly whose it is: %w", at, err)
		}
		if was != is {
			return nil, errors.New(at + " is another account's")
		}
	}
	changed := false
	for _, at := range l.fresh {
		was, is := member(old, at), member(renewed, at)
		if was == nil || reflect.DeepEqual(was, is) {
			continue
		}
		if when, isTime := timeOf(was, is); isTime && (when.Before(earliest) || when.After(time.Now().Add(furthest))) {
			return nil, fmt.Errorf("%s is no time from %d to %d years from now", at, earliest.Year(), furthest/year)
		} else if isTime {
			in, name := holder(old, at)
			in[name], changed = is, true
			continue
		}
		s, ok := is.(string)
		if !ok || (s == "" || len(s) > maxToken || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })) {
			return nil, fmt.Errorf("%s is empty, longer than %s, or has characters that no token has", at, policy.Size(maxToken))
		}
		in, name := holder(old, at)
		in[name], changed = is, true
	}
	if !changed {
		return nil, nil
	}
	return encodeObject(old), nil
}

// sameShape refuses an object that lacks a member of the one before, or has it in another form.
func sameShape(before, after map[string]any, at string) error {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was, is := before[name], after[name]
		if was == nil {
			continue
		}
		if reflect.TypeOf(was) != reflect.TypeOf(is) {
			return errors.New(at + name + " is missing, or has another form")
		}
		if inner, ok := was.(map[string]any); ok {
			if err := sameShape(inner, is.(map[string]any), at+name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// member returns the member at a path "a.b.c", nil if there is none.
func member(object map[string]any, at string) any {
	in, name := holder(object, at)
	return in[name]
}

// oneMeaning refuses a text that has members twice, or in two cases: what reads it on the host could
// take others than were judged.
func oneMeaning(text []byte) error {
	var whole map[string]any
	return strictjson.Unmarshal(text, &whole, strictjson.Options{Foreign: true})
}

// subject returns whose a JSON Web Token is, "" for anything else. What signs it is not
// checked: the same account's is all that is asked. It refuses a token that readers could
// understand in different ways.
func subject(token any) (string, error) {
	s, _ := token.(string)
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return "", nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Sub string `json:"sub"`
	}
	if err == nil {
		err = strictjson.Unmarshal(payload, &claims, strictjson.Options{Foreign: true})
	}
	return claims.Sub, err
}

// Times of a login lie between these.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	year     = 365 * 24 * time.Hour
	furthest = 10 * year
)

// timeOf returns the time that a member says in place of another: a number, which must be one of
// whole milliseconds since 1970, as agents write them, or a text where there was one of a time.
// For any other value it returns the zero time, which is outside every bound.
func timeOf(was, is any) (when time.Time, isTime bool) {
	switch is := is.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(is.String(), 10, 64); err == nil {
			when = time.UnixMilli(n)
		}
		return when, true
	case string:
		before, _ := was.(string)
		if _, err := time.Parse(time.RFC3339, before); err == nil {
			when, _ = time.Parse(time.RFC3339, is) // zero if it is not a time
			return when, true
		}
	}
	return time.Time{}, false
}
