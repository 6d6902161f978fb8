package agent_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// installation is a request that body follows.
func installation(body []byte) string {
	return fmt.Sprintf(`{"action":"install_secrets","archive_size":%d}`, len(body))
}

// install replaces the secrets, which must succeed.
func (b *bareAgent) install(t *testing.T, members ...member) map[string]any {
	t.Helper()
	body := archive(members...)
	answer := answerOf(t, b.exchange(t, append([]byte(installation(body)+"\n"), body...)))
	if answer["error"] != nil {
		t.Fatalf("cannot install: %v", answer)
	}
	return answer
}

// Contract 001.4: install_secrets.
func TestConformSecrets(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	t.Run("result", func(t *testing.T) {
		conform(t)
		answer := b.install(t, dir("d"), file("d/token", "abc"), file("./key", "de"))
		contains(t, answer, `{"entry_count":3,"bytes_written":5}`)
		if to := answer["destination"]; to != b.secrets && to != "/run/pyro-secrets" { // which is what the root is by default
			t.Errorf("the destination is %v", to)
		}
		types(t, answer, map[string]string{"entry_count": "int", "bytes_written": "int"})
		holds(t, "abc", b.secrets, "d", "token")
		holds(t, "de", b.secrets, "key")
	})
	t.Run("modes", func(t *testing.T) {
		conform(t)
		b.install(t, member{name: "d", kind: '5', mode: 0o777}, member{name: "d/token", body: "x", mode: 0o4777}, file("p/q/key", "x"), file("top", "x"))
		for _, name := range []string{"", "d", "p", "p/q"} {
			hasMode(t, 0o700, b.secrets, name)
		}
		for _, name := range []string{"d/token", "p/q/key", "top"} {
			hasMode(t, 0o600, b.secrets, name)
		}
	})
	t.Run("replaces_the_whole_set", func(t *testing.T) {
		conform(t)
		b.install(t, file("old", "x"), file("d/old", "x"))
		b.install(t, file("new", "y"))
		found, err := filepath.Glob(filepath.Join(b.secrets, "*"))
		if err != nil || len(found) != 1 {
			t.Errorf("there is %q, %v", found, err)
		}
		holds(t, "y", b.secrets, "new")
		b.install(t)
		if found, _ := filepath.Glob(filepath.Join(b.secrets, "*")); len(found) != 0 {
			t.Errorf("there is %q after an empty set", found)
		}
	})
	t.Run("last_one_wins", func(t *testing.T) {
		conform(t)
		contains(t, b.install(t, file("a", "old"), file("a", "x")), `{"entry_count":2,"bytes_written":4}`)
		holds(t, "x", b.secrets, "a")
	})
	odd := func(name string, kind byte) member { return member{name: name, kind: kind, link: "token"} }
	for name, c := range map[string]struct {
		members []member
		err     string
	}{
		"empty_name":       {[]member{file(" ", "x")}, "archive member path is empty"},
		"absolute":         {[]member{file("/x", "x")}, "absolute archive member paths are not allowed: /x"},
		"dot_dot":          {[]member{file("../x", "x")}, "unsafe archive member path: ../x"},
		"dot":              {[]member{dir("./")}, "unsafe archive member path: ."},
		"symlink":          {[]member{odd("./l", '2')}, "secret archive may not contain links: ./l"},
		"hard_link":        {[]member{file("token", "x"), odd("h", '1')}, "secret archive may not contain links: h"},
		"fifo":             {[]member{odd("f", '6')}, "unsupported secret archive member type: f"},
		"device":           {[]member{odd("c", '3')}, "unsupported secret archive member type: c"},
		"name_before_type": {[]member{odd("/l", '2')}, "absolute archive member paths are not allowed: /l"},
		"below_a_file":     {[]member{file("a", "x"), file("a/b", "x")}, anyError},
		"dir_over_file":    {[]member{file("a", "x"), dir("a")}, anyError},
		"file_over_dir":    {[]member{dir("a"), file("a", "x")}, anyError},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			b.install(t, file("kept", "good"))
			body := archive(c.members...)
			unchanged(t, filepath.Dir(b.secrets), func() { each(t, b, []call{{request: installation(body), body: body, err: c.err}}) })
		})
	}
}
