package agent_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// spaced are files whose names differ in white space only, each with its name
// as its content.
var spaced = []string{"f", "f ", "f\u00a0", "f\n", " f", " ", "\u2003", "d/x", "d/x ", "d /x", " d/ x ", "d/ /\t"}

// Every path that is told leads back to its file, and to no other.
func TestPathsThatEndInSpace(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for _, name := range spaced {
		put(t, name, b.workspace, "k", name)
	}
	entries := func(more string) (paths []string) {
		list, _ := answerOf(t, b.exchange(t, []byte(`{"action":"list_workspace","path":"k","recursive":true`+more+"}\n")))["entries"].([]any)
		for _, e := range list {
			entry, _ := e.(map[string]any)
			if path, _ := entry["path"].(string); entry["artifact_type"] == "file" {
				paths = append(paths, path)
			}
		}
		return paths
	}
	paths := entries("")
	var read []string
	for _, path := range paths {
		answer := b.ask(t, map[string]any{"action": "read_workspace_file", "path": path})
		content, _ := answer["content_b64"].(string)
		text, _ := base64.StdEncoding.DecodeString(content)
		if read = append(read, string(text)); answer["path"] != path {
			t.Errorf("%q is told as %v", path, answer)
		}
	}
	if slices.Sort(read); !slices.Equal(read, slices.Sorted(slices.Values(spaced))) {
		t.Errorf("%q lead to %q", paths, read)
	}
	for _, path := range paths { // those that are left never change
		if answer := b.ask(t, map[string]any{"action": "delete_workspace_path", "path": path}); answer["deleted"] != true || answer["entries"] != 1.0 {
			t.Errorf("delete %q: %v", path, answer)
		}
		if i := slices.Index(paths, path); !slices.Equal(entries(""), paths[i+1:]) {
			t.Fatalf("after %q was deleted there are %q", path, entries(""))
		}
	}
	answer := b.ask(t, map[string]any{"action": "delete_workspace_path", "path": "/workspace/k/d /.", "recursive": true})
	if answer["path"] != "/workspace/k/d /." || answer["deleted"] != true {
		t.Errorf("got %v", answer)
	}
	if _, err := os.Stat(filepath.Join(b.workspace, "k", "d")); err != nil {
		t.Error(err)
	}
	put(t, "x", b.workspace, "m ")
	answer = b.ask(t, map[string]any{"action": "move", "path": "m /.", "target": "k/n /."})
	if answer["target"] != "/workspace/k/n /." {
		t.Errorf("got %v", answer)
	}
	if text, err := os.ReadFile(filepath.Join(b.workspace, "k", "n ")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}

// What was exported comes back, whatever white space is in its names.
func TestArchivesOfSpaces(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for _, name := range spaced {
		put(t, name, b.workspace, "k", name)
	}
	link(t, " d/ x ", b.workspace, "k", "l ")
	header, body := b.export(t, "k")
	if header["entry_count"] != 17.0 {
		t.Errorf("got %v", header)
	}
	b.extract(t, "k2", body)
	want, got := snapshot(t, filepath.Join(b.workspace, "k")), snapshot(t, filepath.Join(b.workspace, "k2"))
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	_, body = b.export(t, "k/f /.")
	b.extract(t, "k3", body)
	if text, err := os.ReadFile(filepath.Join(b.workspace, "k3", "f ")); err != nil || string(text) != "f " {
		t.Errorf("%q, %v", text, err)
	}
}

// Members of an archive that would take each other's place for want of white
// space are refused.
func TestMembersThatCollapse(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const refused = "archive members have one path without their white space: "
	for name, tt := range map[string]struct {
		members []member
		err     string
	}{
		"the second":   {[]member{file("f", "x"), file("f ", "y")}, refused + "f "},
		"the first":    {[]member{file("f ", "x"), file("f", "y")}, refused + "f"},
		"both":         {[]member{file("f ", "x"), file(" f", "y")}, refused + " f"},
		"one twice":    {[]member{file("f ", "x"), file("f ", "y")}, ""},
		"told exactly": {[]member{file("f", "x"), pax('x', exact), file("f ", "y")}, ""},
		"a blank name": {[]member{pax('x', exact), file(" ", "y")}, ""},
		"no such word": {[]member{file("f", "x"), pax('x', "PADDOCK.name=like"), file("f ", "y")}, refused + "f "},
		"upwards":      {[]member{pax('x', exact), file("../f ", "y")}, "unsafe archive member path: ../f "},
	} {
		body := archive(tt.members...)
		answer := answerOf(t, b.exchange(t, append([]byte(extraction(strings.ReplaceAll(name, " ", "-"), body)+"\n"), body...)))
		if text, _ := answer["error"].(string); text != tt.err {
			t.Errorf("%s: got %v, want %q", name, answer, tt.err)
		}
	}
}

const exact = "PADDOCK.name=exact"
