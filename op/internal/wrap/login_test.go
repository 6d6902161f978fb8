package wrap

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// jwt returns a JSON Web Token of a subject.
func jwt(sub, more string) string { return token(fmt.Sprintf(`{"sub":%q,"more":%q}`, sub, more)) }

// token returns a JSON Web Token of a payload.
func token(payload string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256"}`) + "." + part(payload) + "." + part("signature")
}

// TestMerge: only renewed tokens of the same account come back.
func TestMerge(t *testing.T) {
	const claude = `{"claudeAiOauth":{"accessToken":"a1","refreshToken":"r1","expiresAt":1,"scopes":["x"],"subscriptionType":"pro"},"mcpOAuth":{"k":"v"}}`
	codex := fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"r1","account_id":"acc"},"last_refresh":"t1"}`, jwt("me", "1"), jwt("me", "1"))
	swap := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for name, tt := range map[string]struct {
		agent, before, after string
		want                 string // in the result, without spaces; "" if nothing is written
		refused              string
	}{
		"claude renews":                    {"claude", claude, swap(claude, `"a1"`, `"a2"`, `"r1"`, `"r2"`, `:1,`, `:1800000000000,`), swap(claude, `"a1"`, `"a2"`, `"r1"`, `"r2"`, `:1,`, `:1800000000000,`), ""},
		"nothing is new":                   {"claude", claude, swap(claude, `{"claude`, `{ "claude`), "", ""},
		"other members stay the host's":    {"claude", claude, swap(claude, `"a1"`, `"a2"`, `"v"`, `"evil"`, `"pro"}`, `"pro","more":{"x":1}},"hooks":"evil"`), swap(claude, `"a1"`, `"a2"`), ""},
		"shrunk":                           {"claude", claude, `{}`, "", "claudeAiOauth is missing, or has another form"},
		"empty":                            {"claude", claude, "", "", "it is not a JSON object"},
		"a list":                           {"claude", claude, `[1]`, "", "it is not a JSON object"},
		"null":                             {"claude", claude, `null`, "", "it is not a JSON object"},
		"two values":                       {"claude", claude, claude + claude, "", "it is not a JSON object"},
		"cut":                              {"claude", claude, claude[:40], "", "it is not a JSON object"},
		"no refresh token":                 {"claude", claude, swap(claude, `"refreshToken":"r1",`, ""), "", "claudeAiOauth.refreshToken is missing"},
		"logged out":                       {"claude", claude, swap(claude, `"a1"`, `""`), "", "claudeAiOauth.accessToken is empty"},
		"a token as an object":             {"claude", claude, swap(claude, `"a1"`, `{"x":1}`), "", "claudeAiOauth.accessToken is missing, or has another form"},
		"a token of two lines":             {"claude", claude, swap(claude, `"a1"`, `"a\nb"`), "", "has characters that no token has"},
		"a long token":                     {"claude", claude, swap(claude, `"a1"`, `"`+strings.Repeat("a", maxToken+1)+`"`), "", "longer than 16KiB"},
		"another subscription":             {"claude", claude, swap(claude, `"a1"`, `"a2"`, `"pro"`, `"max"`), "", "claudeAiOauth.subscriptionType is another one"},
		"more scopes":                      {"claude", claude, swap(claude, `["x"]`, `["x","y"]`), "", "claudeAiOauth.scopes is another one"},
		"the host's is not JSON":           {"claude", "x", claude, "", "the one on this host is not a JSON object"},
		"a number beyond reason":           {"claude", claude, swap(claude, `:1,`, `:12345678901234567,`), "", "claudeAiOauth.expiresAt is no time from 2000 to 10 years from now"},
		"a number that overflows":          {"claude", claude, swap(claude, `:1,`, `:18446744073709551617,`), "", "claudeAiOauth.expiresAt is no time"},
		"a number that is infinite":        {"claude", claude, swap(claude, `:1,`, `:1e400,`), "", "claudeAiOauth.expiresAt"},
		"a fraction":                       {"claude", claude, swap(claude, `:1,`, `:1.8e12,`), "", "claudeAiOauth.expiresAt is no time"},
		"a negative number":                {"claude", claude, swap(claude, `:1,`, `:-1800000000000,`), "", "claudeAiOauth.expiresAt is no time"},
		"seconds in place of milliseconds": {"claude", claude, swap(claude, `:1,`, `:1800000000,`), "", "claudeAiOauth.expiresAt is no time"},
		"a member twice":                   {"claude", claude, swap(claude, `"accessToken":"a1"`, `"accessToken":"evil","accessToken":"a2"`), "", "claudeAiOauth.accessToken: appears twice"},
		"a member in two cases":            {"claude", claude, swap(claude, `"accessToken":"a1"`, `"AccessToken":"evil","accessToken":"a2"`), "", "claudeAiOauth.accessToken: differs from another member in case alone"},
		"a brace too many":                 {"claude", claude, swap(claude, `"a1"`, `"a2"`) + "}", "", "after top-level value"},
		"codex, two subjects":              {"codex", codex, swap(codex, jwt("me", "1"), token(`{"sub":"evil","SUB":"me"}`)), "", "tokens.id_token does not say clearly whose it is"},
		"codex, a subject twice":           {"codex", codex, swap(codex, jwt("me", "1"), token(`{"sub":"evil","sub":"me"}`)), "", "tokens.id_token does not say clearly whose it is"},
		"codex, a subject of another case": {"codex", codex, swap(codex, jwt("me", "1"), token(`{"SUB":"me"}`)), "", "tokens.id_token is another account's"},
		"codex, opaque, then two subjects": {"codex", swap(codex, jwt("me", "1"), "opaque"), swap(codex, jwt("me", "1"), token(`{"sub":"evil","SUB":""}`)), "", "tokens.id_token does not say clearly whose it is"},
		"codex, a refresh":                 {"codex", swap(codex, `"t1"`, `"2026-01-02T03:04:05.123456Z"`), swap(codex, `"t1"`, `"2026-02-02T03:04:05.123456Z"`), `"last_refresh":"2026-02-02T03:04:05.123456Z"`, ""},
		"codex, a refresh in far years":    {"codex", swap(codex, `"t1"`, `"2026-01-02T03:04:05Z"`), swap(codex, `"t1"`, `"9026-02-02T03:04:05Z"`), "", "last_refresh is no time"},
		"codex, a refresh that is no time": {"codex", swap(codex, `"t1"`, `"2026-01-02T03:04:05Z"`), swap(codex, `"t1"`, `"evil"`), "", "last_refresh is no time"},
		"codex renews":                     {"codex", codex, swap(codex, jwt("me", "1"), jwt("me", "2"), `"r1"`, `"r2"`, `"t1"`, `"t2"`), jwt("me", "2"), ""},
		"codex, another subject":           {"codex", codex, swap(codex, jwt("me", "1"), jwt("evil", "2")), "", "tokens.id_token is another account's"},
		"codex, no token at all":           {"codex", codex, swap(codex, jwt("me", "1"), "opaque"), "", "tokens.id_token is another account's"},
		"codex, another account":           {"codex", codex, swap(codex, `"acc"`, `"evil"`, `"r1"`, `"r2"`), "", "tokens.account_id is another one"},
		"codex, a key in place of a login": {"codex", codex, swap(codex, `:null`, `:"sk-evil"`), "", "OPENAI_API_KEY is another one"},
		"gemini renews":                    {"gemini", `{"access_token":"a1","refresh_token":"r1","scope":"s","expiry_date":1}`, `{"access_token":"a2","refresh_token":"r1","scope":"s","expiry_date":1800000000000}`, `{"access_token":"a2","expiry_date":1800000000000,"refresh_token":"r1","scope":"s"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := agentOf([]string{tt.agent}).login.merge([]byte(tt.before), []byte(tt.after))
			flat := strings.Join(strings.Fields(string(got)), "")
			switch {
			case tt.refused != "":
				if err == nil || !strings.Contains(err.Error(), tt.refused) || got != nil {
					t.Errorf("merge returned %s, %v; want an error: %s", got, err, tt.refused)
				}
			case err != nil:
				t.Error(err)
			case tt.want == "" && got != nil, !strings.Contains(flat, sorted(t, tt.want)):
				t.Errorf("merge returned %s, want %s", flat, tt.want)
			}
		})
	}
}

// sorted returns a JSON object as merge writes it, without spaces, and any other text as it is.
func sorted(t *testing.T, object string) string {
	t.Helper()
	if !strings.HasPrefix(object, "{") {
		return object
	}
	parsed, err := parseObject([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(encodeObject(parsed))), "")
}

// TestUnpack: only a small regular file is read, whatever else the archive has.
func TestUnpack(t *testing.T) {
	for name, tt := range map[string]struct {
		header tar.Header
		want   string
	}{
		"a file":         {tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: 3}, ""},
		"a link":         {tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/etc/passwd"}, "it is no longer a regular file"},
		"a FIFO":         {tar.Header{Typeflag: tar.TypeFifo, Name: "x"}, "it is no longer a regular file"},
		"a directory":    {tar.Header{Typeflag: tar.TypeDir, Name: "x/"}, "it is no longer a regular file"},
		"a device":       {tar.Header{Typeflag: tar.TypeChar, Name: "x"}, "it is no longer a regular file"},
		"a second name":  {tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "y"}, "it is no longer a regular file"},
		"a huge file":    {tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: maxLogin + 1}, "it has more than 64KiB"},
		"no archive yet": {tar.Header{}, "it cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if w := tar.NewWriter(&b); tt.header.Name != "" {
				if err := w.WriteHeader(&tt.header); err != nil {
					t.Fatal(err)
				}
				_, _ = w.Write(make([]byte, tt.header.Size))
			}
			text, err := unpack(b.Bytes())
			switch {
			case tt.want == "" && (err != nil || len(text) != 3):
				t.Errorf("unpack returned %q, %v", text, err)
			case tt.want != "" && (err == nil || err.Error() != tt.want):
				t.Errorf("unpack returned %q, %v; want an error: %s", text, err, tt.want)
			}
		})
	}
}

// TestReplace: a login that changed on the host meanwhile stays.
func TestReplace(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, at string)
		want   string // of the error
		text   string
	}{
		"as it was": {func(*testing.T, string) {}, "", "after"},
		"changed":   {func(t *testing.T, at string) { testkit.Write(t, at, "other", 0o600) }, "it has changed on this host meanwhile", "other"},
		"gone":      {func(t *testing.T, at string) { must(t, os.Remove(at)) }, "no such file or directory", ""},
		"a link now": {func(t *testing.T, at string) {
			must(t, os.Rename(at, at+".old"))
			must(t, os.Symlink(at+".old", at))
		}, "symbolic link", "before"},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "login")
			testkit.Write(t, at, "before", 0o600)
			c := settings{login: []byte("before"), loginAt: at, state: t.TempDir(), spec: policy.Spec{Workspace: policy.Workspace{Source: t.TempDir()}}}
			tt.change(t, at)
			err := c.replace(context.Background(), []byte("after"))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("replace: %v, want %q", err, tt.want)
			}
			if text, _ := os.ReadFile(at); string(text) != tt.text {
				t.Errorf("the file has %q, want %q", text, tt.text)
			}
			if info, err := os.Stat(at); err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("its mode is %v", info.Mode())
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
