package agent_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Trees that are deeper than any path may be long are walked all the same.
func TestDeepTrees(t *testing.T) {
	t.Parallel()
	b := bare(t)
	level := strings.Repeat("n", 60)
	deep := strings.TrimSuffix(strings.Repeat(level+"/", 300), "/") // 18,299 bytes
	at := func(name string) string { return quoted("deep/" + deep + "/" + name) }
	var body bytes.Buffer
	w := tar.NewWriter(&body)
	for _, h := range []tar.Header{{Name: deep + "/file", Size: 3, Mode: 0o644}, {Name: deep + "/link", Typeflag: tar.TypeSymlink, Linkname: "file"}} {
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte("abc")[:h.Size])
	}
	_ = w.Close()
	contains(t, b.extract(t, "deep", body.Bytes()), `{"entry_count":2,"bytes_written":3}`)
	each(t, b, []call{
		{request: `{"action":"read_workspace_file","path":` + at("file") + `}`, want: `{"content_b64":"YWJj"}`},
		{request: `{"action":"write_workspace_file","path":` + at("more/new") + `,"text":"x"}`, want: `{"bytes_written":1}`},
		{request: `{"action":"list_workspace","path":` + at("more") + `}`, want: `{"entries":[{"size_bytes":1}]}`},
		{request: `{"action":"delete_workspace_path","path":` + at("link") + `}`, want: `{"deleted":true}`},
	})
	header, exported := b.export(t, "deep")
	contains(t, header, `{"entry_count":303,"bytes_written":4}`)
	b.extract(t, "again", exported)
	for _, top := range []string{"deep", "again"} { // too deep for os.RemoveAll to be quick about
		each(t, b, []call{{request: `{"action":"delete_workspace_path","path":"` + top + `","recursive":true}`, want: `{"deleted":true}`}})
	}
}

// pax is a member of extended records for the one that follows it.
func pax(kind byte, records ...string) member {
	var body strings.Builder
	for _, r := range records {
		n := len(r) + 2
		for len(fmt.Sprint(n))+len(r)+2 != n {
			n = len(fmt.Sprint(n)) + len(r) + 2
		}
		fmt.Fprintf(&body, "%d %s\n", n, r)
	}
	return member{name: "PaxHeaders/x", kind: kind, body: body.String()}
}

// Archives that make no sense are refused or taken for what they can be, and
// nothing gets out of the workspace.
func TestNonsenseArchives(t *testing.T) {
	t.Parallel()
	b := bare(t)
	out := outside(t, b)
	a := file("a", "x")
	bodies := map[string][]byte{
		"absolute path record":   archive(pax('x', "path="+out+"/file"), a),
		"path record goes up":    archive(pax('x', "path=../outside/file"), a),
		"global path record":     archive(pax('g', "path=../outside/file"), a),
		"NUL in a path record":   archive(pax('x', "path=../outside/file\x00"), a),
		"link record":            archive(pax('x', "linkpath="+out), symlink("l", "x"), file("l/file", "x")),
		"negative size":          archive(pax('x', "size=-1"), a),
		"huge size":              archive(pax('x', "size=9223372036854775807"), a),
		"size of no number":      archive(pax('x', "size=many"), a),
		"bad record length":      archive(member{name: "p", kind: 'x', body: "999 path=a\n"}, a),
		"record of no length":    archive(member{name: "p", kind: 'x', body: "path=a\n"}, a),
		"records for nothing":    archive(pax('x', "path=b")),
		"records for records":    archive(pax('x', "path=b"), pax('x', "path=c"), a),
		"sparse map of nonsense": archive(pax('x', "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.realsize=1", "GNU.sparse.name=../outside/file"), file("a", "99\n0\n")),
		"sparse beyond its size": archive(pax('x', "GNU.sparse.size=10", "GNU.sparse.numblocks=1", "GNU.sparse.map=9223372036854775807,5"), a),
		"sparse exabytes":        archive(pax('x', "GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.size=4611686018427387904", "GNU.sparse.numblocks=0", "GNU.sparse.map="), a),
		"long name goes up":      archive(member{name: "././@LongLink", kind: 'L', body: "../outside/file\x00"}, a),
		"long name for nothing":  archive(member{name: "././@LongLink", kind: 'L', body: "x\x00"}),
		"size with no digits":    append(append(bytes.Clone(a.header(0)[:124]), "zzzzzzzzzzz\x00"...), a.header(0)[136:]...),
		"member after the end":   append(archive(a), archive(file("../outside/file", "x"))...),
		"a directory of bytes":   archive(member{name: "d", kind: '5', body: "bytes"}, a),
		"a device of zeros":      archive(member{name: "dev", kind: '3'}, a),
		"name of 256 bytes":      archive(pax('x', "path="+strings.Repeat("n", 256)), a),
		"name of many bytes":     archive(pax('x', "path="+strings.Repeat("n/", 40_000)+"n"), a),
		"many time stamps":       archive(pax('x', "mtime=1e400", "atime=-9999999999999999999.9", "ctime="), a),
		"owner and attributes":   archive(pax('x', "uid=-1", "gid=99999999999", "SCHILY.xattr.security.capability=\x01\x00\x00\x02"), a),
	}
	unchanged(t, out, func() {
		for name, body := range bodies {
			for _, request := range []string{extraction("x/"+strings.ReplaceAll(name, " ", "-"), body), installation(body)} {
				if got := b.exchange(t, append([]byte(request+"\n"), body...)); len(got) == 0 {
					t.Errorf("%s: there is no answer", name)
				}
			}
		}
	})
	if found, _ := filepath.Glob(filepath.Join(filepath.Dir(b.workspace), "*")); len(found) != 6 { // four roots, the socket, outside
		t.Errorf("there is %q", found)
	}
	b.serves(t)
}

// smallDisk starts an agent whose workspace is a file system of a MiB.
func smallDisk(t *testing.T) *bareAgent {
	t.Helper()
	if wallless != "" && os.Getuid() != 0 {
		t.Skip("SKIPPED ALOUD: nothing can be mounted here: " + wallless)
	}
	return bareCommand(t, func(cmd *exec.Cmd, _ string) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		workspace := cmd.Args[4]
		cmd.Path = "/bin/sh"
		cmd.Args = append([]string{"sh", "-c", `mkdir -p "$0" && mount --make-rprivate / && mount -t tmpfs -o size=1m,mode=755 none "$0" && exec "$@"`, workspace, agentPath}, cmd.Args[1:]...)
	})
}

// A disk that fills in the middle leaves what was there as it was.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	b := smallDisk(t)
	seen := func() string { return textOf(t, b.ask(t, map[string]any{"command": "find . | sort; cat a"}), "stdout") }
	each(t, b, []call{
		{request: `{"action":"write_workspace_file","path":"a","text":"old content"}`, want: `{}`},
		{request: `{"action":"write_workspace_file","path":"b","text":"` + strings.Repeat("b", 500_000) + `"}`, want: `{}`},
	})
	before := seen()
	large := strings.Repeat("x", 900_000)
	body := archive(file("d/first", "x"), file("a", "new content"), file("large", large), file("last", "x"))
	each(t, b, []call{
		{request: `{"action":"write_workspace_file","path":"a","text":"` + large + `"}`, err: anyError},
		{request: `{"action":"write_workspace_file","path":"new/dir/a","text":"` + large + `"}`, err: anyError},
		{request: extraction(".", body), body: body, err: anyError},
		{request: extraction("some/where", body), body: body, err: anyError},
	})
	if after := seen(); strings.ReplaceAll(strings.ReplaceAll(after, "./new/dir\n", ""), "./new\n", "") != before {
		t.Errorf("it has changed from\n%s\nto\n%s", before, after)
	}
	each(t, b, []call{
		{request: `{"action":"delete_workspace_path","path":"b"}`, want: `{}`},
		{request: `{"action":"write_workspace_file","path":"a","text":"` + large + `"}`, want: `{"bytes_written":900000}`},
	})
}

// Of many who want one name at once, one gets it.
func TestOneNameAtOnce(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for kind, request := range map[string]string{"shell": open("x", ""), "service": service("x", runs, "")} {
		const many = 16
		answers := make(chan map[string]any, many)
		var waiting sync.WaitGroup
		for range many {
			waiting.Go(func() { answers <- answerOf(t, b.exchange(t, []byte(request+"\n"))) })
		}
		waiting.Wait()
		close(answers)
		won := 0
		for answer := range answers {
			switch text, _ := answer["error"].(string); text {
			case "":
				won++
			case "shell 'x' already exists", "service 'x' is already running":
			default:
				t.Errorf("%s: got %s", kind, text)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d have got it", kind, won)
		}
	}
	b.shellRead(t, "x", "$ ")
	b.closeShell(t, "x")
	each(t, b, []call{{request: aboutService("stop", "x"), want: `{}`}})
}
