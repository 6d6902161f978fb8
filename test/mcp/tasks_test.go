//go:build linux

package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// tasks are what every client's model does, in this order in one sandbox, and what
// it is given.
type tasks struct {
	Files map[string]string // of the workspace, before
	Tasks []struct {
		Name  string
		Calls []struct {
			scripted
			Has, Lacks []string // of what the model is given
			Most       int      // characters of it
		}
	}
	After map[string]string // files, byte for byte
}

func readTasks(t *testing.T) *tasks {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "tasks.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := &tasks{}
	if err := json.Unmarshal(data, all); err != nil {
		t.Fatal(err)
	}
	return all
}

// script is all calls, in order.
func (all *tasks) script() (calls []scripted) {
	for _, task := range all.Tasks {
		for _, call := range task.Calls {
			calls = append(calls, call.scripted)
		}
	}
	return calls
}

// write makes the files of the tasks in a workspace.
func (all *tasks) write(t *testing.T, workspace string) {
	t.Helper()
	for name, text := range all.Files {
		path := filepath.Join(workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// check compares what a model was given, and the workspace, with the tasks.
func (all *tasks) check(t *testing.T, had []given, workspace string) {
	t.Helper()
	for _, task := range all.Tasks {
		for _, call := range task.Calls {
			if len(had) == 0 {
				t.Errorf("%s: %s was not called", task.Name, call.Tool)
				continue
			}
			got := had[0]
			had = had[1:]
			for _, want := range call.Has {
				if !strings.Contains(got.text, want) {
					t.Errorf("%s: %s %v gave the model no %q:\n%s", task.Name, call.Tool, call.Args, want, clip(got.text))
				}
			}
			for _, unwanted := range call.Lacks {
				if strings.Contains(got.text, unwanted) {
					t.Errorf("%s: %s %v gave the model %q:\n%s", task.Name, call.Tool, call.Args, unwanted, clip(got.text))
				}
			}
			if n := utf8.RuneCountInString(got.text); call.Most > 0 && n > call.Most {
				t.Errorf("%s: %s %v gave the model %d characters", task.Name, call.Tool, call.Args, n)
			}
		}
	}
	for name, want := range all.After {
		if data, err := os.ReadFile(filepath.Join(workspace, name)); err != nil || string(data) != want {
			t.Errorf("afterwards %s is %q, %v; want %q", name, data, err, want)
		}
	}
}
