package paddock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// downloads gives a test a home with what npm and pip have downloaded, and a workspace that uses
// both.
func downloads(t *testing.T) (home string, spec Spec, opts Options) {
	t.Helper()
	storeOf(t)
	home = t.TempDir()
	for name, value := range map[string]string{"HOME": home, "npm_config_cache": "", "NPM_CONFIG_CACHE": "", "PIP_FIND_LINKS": filepath.Join(home, "wheels")} {
		t.Setenv(name, value)
	}
	ws := t.TempDir()
	for at, text := range map[string]string{
		home + "/.npm/_cacache/content-v2/sha512/aa/bb/cc": "downloaded", home + "/.npm/_cacache/index-v5/x": "secret", home + "/.npm/_logs/x": "secret",
		home + "/wheels/dep-1.0-py3-none-any.whl": "downloaded", home + "/wheels/dep-1.0.tar.gz": "downloaded", home + "/.npmrc": "secret",
		ws + "/package.json": "{}", ws + "/setup.py": "",
	} {
		testkit.Write(t, at, text, 0o644)
	}
	opts = auto("ann")
	opts.Caches.Host = true
	return home, Spec{Workspace: Workspace{Source: ws}}, opts
}

// seesNPM and seesPip tell in a sandbox which downloads of the caller's are there.
const (
	seesNPM = `test -e "$npm_config_cache/_cacache/content-v2/sha512/aa/bb/cc" && echo npm;`
	seesPip = `test -e "${PIP_FIND_LINKS%% *}/dep-1.0-py3-none-any.whl" && echo pip;`
)

// TestDownloads: tools in a sandbox without a network see what the caller has downloaded, where
// this is safe, and the isolation says what they see.
func TestDownloads(t *testing.T) {
	testkit.RequireOverlays(t)
	const npm, wheels = "/.npm/_cacache", "/wheels"
	elsewhere := t.TempDir()
	testkit.Write(t, elsewhere+"/content-v2/sha512/aa/bb/cc", "outside", 0o644)
	testkit.Write(t, elsewhere+"/dep-1.0-py3-none-any.whl", "outside", 0o644)
	bothAre := func(with func(at string) error) func(*testing.T, string, *Spec) {
		return func(t *testing.T, home string, _ *Spec) {
			for _, at := range []string{home + npm, home + wheels} {
				if err := errors.Join(os.RemoveAll(at), with(at)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	moved := func(variable string) func(*testing.T, string, *Spec) {
		return func(t *testing.T, home string, _ *Spec) {
			t.Setenv(variable, home+"/npm")
			if err := os.Rename(home+"/.npm", home+"/npm"); err != nil {
				t.Fatal(err)
			}
		}
	}
	bare := []string{"pip"}
	if os.Geteuid() == 0 {
		bare = nil
	}
	for name, tt := range map[string]struct {
		change func(t *testing.T, home string, spec *Spec)
		others bool // they are not the principal's
		want   []string
	}{
		"as they are":            {want: []string{"npm", "pip"}},
		"with a network":         {change: func(_ *testing.T, _ string, s *Spec) { s.Network = Network{Mode: "host"} }},
		"for another principal":  {others: true},
		"no caches":              {change: func(_ *testing.T, _ string, s *Spec) { s.Caches = []string{"none"} }},
		"of one tool":            {change: func(_ *testing.T, _ string, s *Spec) { s.Caches = []string{"pip"} }, want: []string{"pip"}},
		"perhaps no namespaces":  {change: func(_ *testing.T, _ string, s *Spec) { s.AllowDegraded = []string{"namespaces"} }, want: bare},
		"below an overlay":       {change: func(_ *testing.T, _ string, s *Spec) { s.Workspace.Mode = "overlay" }, want: []string{"npm", "pip"}},
		"npm's in another place": {change: moved("npm_config_cache"), want: []string{"npm", "pip"}},
		"in capitals":            {change: moved("NPM_CONFIG_CACHE"), want: []string{"npm", "pip"}},
		"npm has none":           {change: func(_ *testing.T, home string, _ *Spec) { _ = os.RemoveAll(home + "/.npm") }, want: []string{"pip"}},
		"npm has too many names": {change: func(t *testing.T, home string, _ *Spec) {
			for i := range 100 {
				testkit.Write(t, fmt.Sprintf("%s%s/%d", home, npm, i), "", 0o644)
			}
		}, want: []string{"pip"}},
		"npm has other names": {change: func(t *testing.T, home string, _ *Spec) {
			testkit.Write(t, home+npm+"/index-v6/x", "secret", 0o644)
			testkit.Write(t, home+npm+"/a \x1b\n\xff", "secret", 0o644)
		}, want: []string{"npm", "pip"}},
		"links out of the home": {change: bothAre(func(at string) error { return os.Symlink(elsewhere, at) })},
		"links to themselves":   {change: bothAre(func(at string) error { return os.Symlink(filepath.Base(at), at) })},
		"pipes":                 {change: bothAre(func(at string) error { return unix.Mkfifo(at, 0o600) })},
		"files":                 {change: bothAre(func(at string) error { return os.WriteFile(at, nil, 0o600) })},
		"open to all":           {change: bothAre(func(at string) error { return errors.Join(os.Mkdir(at, 0o700), os.Chmod(at, 0o777)) })},
		"not packages alone":    {change: func(t *testing.T, home string, _ *Spec) { testkit.Write(t, home+wheels+"/id_rsa", "secret", 0o600) }, want: []string{"npm"}},
		"a directory beside them": {change: func(t *testing.T, home string, _ *Spec) {
			testkit.Write(t, home+wheels+"/x.whl/x.whl", "secret", 0o600)
		}, want: []string{"npm"}},
		"a link beside them": {change: func(_ *testing.T, home string, _ *Spec) { _ = os.Symlink("/etc/passwd", home+wheels+"/x.whl") }, want: []string{"npm"}},
		"no packages":        {change: bothAre(func(at string) error { return os.Mkdir(at, 0o700) })},
		"the home itself":    {change: func(t *testing.T, home string, _ *Spec) { t.Setenv("PIP_FIND_LINKS", home) }, want: []string{"npm"}},
		"several places": {change: func(t *testing.T, home string, _ *Spec) {
			t.Setenv("PIP_FIND_LINKS", "https://example.com/ "+home+wheels+"\t"+elsewhere+" "+home+wheels)
		}, want: []string{"npm", "pip"}},
		"relative places": {change: func(t *testing.T, home string, _ *Spec) {
			t.Chdir(home)
			t.Setenv("npm_config_cache", ".npm")
			t.Setenv("PIP_FIND_LINKS", "wheels")
		}},
		"a sandbox could write a part": {change: func(t *testing.T, home string, _ *Spec) {
			for _, part := range []string{npm + "/content-v2/sha512", wheels} {
				shell(t, Spec{Workspace: Workspace{Source: t.TempDir()}, Mounts: []Mount{{Source: home + part, Mode: "rw"}}}, Options{}, "true")
			}
		}},
		"this one can": {change: func(_ *testing.T, home string, s *Spec) {
			s.Mounts = []Mount{{Source: home + npm, Target: "/x", Mode: "rw"}, {Source: home + wheels, Target: "/y", Mode: "rw"}}
		}},
		"they are mounted, too": {change: func(_ *testing.T, home string, s *Spec) {
			s.Mounts = []Mount{{Source: home + npm + "/content-v2", Target: "/x"}, {Source: home + wheels, Target: "/y"}}
		}, want: []string{"npm", "pip"}},
		"the store lies there": {change: func(t *testing.T, home string, _ *Spec) {
			t.Setenv(CacheDirEnv, home+npm+"/content-v2/store")
		}},
		"the state lies there": {change: func(t *testing.T, home string, _ *Spec) {
			t.Setenv(StateDirEnv, home+npm+"/content-v2/secret/state")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			home, spec, opts := downloads(t)
			if tt.change != nil {
				tt.change(t, home, &spec)
			}
			opts.Caches.Host = !tt.others
			out, iso := shell(t, spec, opts, seesNPM+seesPip+`grep -rs secret "$npm_config_cache" "$HOME" /tmp; exit 0`)
			if !slices.Equal(strings.Fields(out), tt.want) || !slices.Equal(iso.Downloads, tt.want) {
				t.Errorf("inside there is %q, and the isolation says %q", out, iso.Downloads)
			}
		})
	}
}

// TestDownloadsBelowMounts: what the host's mounts cover is not laid bare.
func TestDownloadsBelowMounts(t *testing.T) {
	home, spec, opts := downloads(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	at := home + "/.npm/_cacache/content-v2/sha512"
	if err := unix.Mount("covering", at, "tmpfs", 0, ""); err != nil {
		t.Skip("no mount can be made here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if out, iso := shell(t, spec, opts, seesNPM+seesPip); out != "pip\n" || !slices.Equal(iso.Downloads, []string{"pip"}) {
		t.Errorf("inside there is %q, and the isolation says %q", out, iso.Downloads)
	}
}

// TestDownloadsChangedMeanwhile: commands that replace the mount point in their cache never keep
// another sandbox over the same workspace from starting, and what the isolation says holds.
func TestDownloadsChangedMeanwhile(t *testing.T) {
	testkit.RequireOverlays(t)
	_, spec, opts := downloads(t)
	spec.Caches = []string{"npm"} // what was named is never left out
	with := opts
	opts.Caches.Host = false
	hostile, err := Open(t.Context(), spec, opts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := hostile.Command(t.Context(), "sh", "-c", `cd "$npm_config_cache" && echo ready && while :; do rm -rf _cacache; ln -s /tmp _cacache; rm -f _cacache; mkdir -p _cacache/content-v2; mv _cacache x; done 2>/dev/null`)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	merged := 0
	for range 30 {
		if _, iso := shell(t, spec, with, "true"); slices.Contains(iso.Downloads, "npm") {
			merged++
		} else if !slices.Equal(iso.Caches, []string{"npm"}) {
			t.Errorf("the caches are %q", iso.Caches)
		}
	}
	t.Logf("%d of 30 had the downloads", merged)
	if err := hostile.Close(); err != nil {
		t.Error(err)
	}
	if removed, err := RemoveCaches(t.Context(), CacheChoice{Tool: "npm"}, Options{}); err != nil || len(removed) != 1 || removed[0].Err != nil {
		t.Errorf("removed %+v (%v)", removed, err)
	}
	if out, iso := shell(t, spec, with, seesNPM); out != "npm\n" || !slices.Equal(iso.Downloads, []string{"npm"}) {
		t.Errorf("then there is %q, and the isolation says %q", out, iso.Downloads)
	}
}

// TestDownloadsTogether: sandboxes that have the downloads below one cache, and others that
// change this cache meanwhile, do not disturb each other. What the first write is gone.
func TestDownloadsTogether(t *testing.T) {
	testkit.RequireOverlays(t)
	_, spec, opts := downloads(t)
	var wait sync.WaitGroup
	for i := range 10 {
		wait.Go(func() {
			mine := opts
			mine.Caches.Host = i%5 != 0
			s, err := Open(t.Context(), spec, mine)
			if err != nil {
				t.Error(err)
				return
			}
			out, err := s.Command(t.Context(), "sh", "-c", `mkdir -p "$npm_config_cache/_cacache" && cd "$npm_config_cache/_cacache" || exit 1
				for n in 1 2 3 4 5 6 7 8 9; do mkdir -p tmp content-v2/sha512/aa/bb && echo $n > tmp/$0 && mv tmp/$0 content-v2/sha512/aa/bb/$0 && grep -q $n content-v2/sha512/aa/bb/$0 || exit 1; done; echo ended`, fmt.Sprint(i)).CombinedOutput()
			if err := errors.Join(err, s.Close()); err != nil || string(out) != "ended\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wait.Wait()
	spec.Caches = []string{"npm"}
	opts.Caches.Host = false
	if out, _ := shell(t, spec, opts, `ls "$npm_config_cache/_cacache/content-v2/sha512/aa/bb" | wc -l`); strings.TrimSpace(out) != "2" {
		t.Errorf("%q of ten have written to the cache, not the 2 whose changes stay", out)
	}
	if removed, err := RemoveCaches(t.Context(), CacheChoice{Tool: "npm"}, Options{}); err != nil || len(removed) != 1 || removed[0].Err != nil {
		t.Errorf("removed %+v (%v)", removed, err)
	}
}
