package agent_test

import (
	"strings"
	"testing"
)

// takers are the actions that take a path, as requests with %s for it.
var takers = []struct{ name, request string }{
	{"list", `{"action":"list_workspace","path":%s}`},
	{"read", `{"action":"read_workspace_file","path":%s}`},
	{"write", `{"action":"write_workspace_file","path":%s,"text":"x"}`},
	{"delete", `{"action":"delete_workspace_path","path":%s}`},
	{"export", `{"action":"export_archive","path":%s}`},
	{"extract", `{"action":"extract_archive","archive_size":10240,"destination":%s}`},
	{"shell", `{"action":"open_shell","shell_id":"path","cwd":%s}`},
	{"service", `{"action":"start_service","service_name":"path","command":"sleep 60","cwd":%s}`},
	{"readiness", `{"action":"start_service","service_name":"path","command":"sleep 60","readiness":{"type":"file","path":%s},"ready_timeout_seconds":0}`},
}

// Contract 001.1: path rules, of every field that is a path.
func TestConformPaths(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	const empty, outside = "destination must not be empty", "destination must stay inside /workspace"
	for name, table := range map[string][]struct{ path, err string }{
		"empty": {{"", empty}, {" ", empty}, {"\t\n\r\f\v", empty}, {"\u00a0\u2003", empty}},
		"outside": {
			{"/", outside}, {"//", outside}, {"///", outside}, {"/.", outside}, {"/workspacex", outside}, {"/etc", outside},
			{"/etc/passwd", outside}, {"/Workspace", outside}, {"/wor/kspace", outside}, {"//workspace", outside}, {"//workspace/x", outside},
			{"/etc/workspace", outside}, {" /etc ", outside},
		},
		"dot_dot": {
			{"..", outside}, {"../x", outside}, {"a/..", outside}, {"a/../b", outside}, {"/workspace/..", outside},
			{"/workspace/../etc/passwd", outside}, {"/workspace/a/../../etc", outside}, {"/../workspace", outside}, {"./..", outside}, {" .. ", outside},
		},
		"nul":      {{"a\x00b", anyError}, {"\x00", anyError}, {"/workspace\x00", anyError}},
		"overlong": {{strings.Repeat("x", 256), anyError}, {"a/" + strings.Repeat("é", 128) + "/b", anyError}, {strings.Repeat("x/", 100_000), anyError}},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			for _, taker := range takers {
				t.Run(taker.name, func(t *testing.T) {
					for _, row := range table {
						if name == "overlong" && taker.name == "readiness" {
							continue // a path that cannot exist is not there yet
						}
						c := call{request: strings.Replace(taker.request, "%s", quoted(row.path), 1), err: row.err}
						if taker.name == "extract" {
							c.body = make([]byte, 10240)
						}
						c.do(t, b)
					}
				})
			}
		})
	}
	t.Run("nothing_started", func(t *testing.T) {
		conform(t)
		each(t, b, []call{
			{request: `{"action":"read_shell","shell_id":"path"}`, err: "shell 'path' does not exist"},
			{request: `{"action":"stop_service","service_name":"path"}`, err: anyError},
			{request: `{"action":"list_workspace"}`, want: `{"entries":[]}`},
		})
	})
}

// Contract 001.1: how a path is read and told.
func TestConformNormalizedPaths(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	put(t, "abc", b.workspace, "a", "b c")
	for name, paths := range map[string][]string{
		"relative":       {"a/b c", "./a/b c"},
		"absolute":       {"/workspace/a/b c", "///workspace/a/b c"},
		"stripped":       {" a/b c\n", "\u00a0/workspace/a/b c\u2003"},
		"empty_parts":    {"a//b c", "/workspace//a///b c"},
		"dots":           {"a/./b c", "/./workspace/./a/././b c/."},
		"trailing_slash": {"a/b c/", "/workspace/a/b c//"},
	} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			for _, path := range paths {
				each(t, b, []call{
					{request: `{"action":"read_workspace_file","path":` + quoted(path) + `}`, want: `{"path":"/workspace/a/b c","content_b64":"YWJj"}`},
					{request: `{"action":"list_workspace","path":` + quoted(path) + `}`, want: `{"path":"/workspace/a/b c","entries":[{"path":"/workspace/a/b c"}]}`},
				})
				if header, _ := b.export(t, path); header["workspace_path"] != "/workspace/a/b c" {
					t.Errorf("%q: got %v", path, header)
				}
			}
		})
	}
	t.Run("root", func(t *testing.T) {
		conform(t)
		for _, path := range []string{"/workspace", ".", "./", "/workspace/", "///workspace//."} {
			each(t, b, []call{{request: `{"action":"list_workspace","path":` + quoted(path) + `}`, want: `{"path":"/workspace","artifact_type":"directory"}`}})
		}
	})
	t.Run("kept", func(t *testing.T) {
		conform(t)
		for _, name := range []string{"...", "..a", "a..", "~", "$HOME", "a\nb", "*", "-rf", `a\b`, "workspace", "é", "\U0001f600"} {
			file := "kept/" + name
			each(t, b, []call{
				{request: `{"action":"write_workspace_file","path":` + quoted(file) + `,"text":"x"}`, want: `{"path":` + quoted("/workspace/"+file) + `}`,
					check: func(t *testing.T, b *bareAgent, _ map[string]any) { holds(t, "x", b.workspace, file) }},
				{request: `{"action":"delete_workspace_path","path":` + quoted(file) + `}`, want: `{"path":` + quoted("/workspace/"+file) + `,"deleted":true}`},
			})
		}
	})
	t.Run("defaults", func(t *testing.T) {
		conform(t)
		each(t, b, []call{
			{request: `{"action":"list_workspace"}`, want: `{"path":"/workspace","artifact_type":"directory"}`},
			{request: `{"action":"read_workspace_file"}`, err: "workspace file read only supports regular files"},
			{request: `{"action":"write_workspace_file"}`, err: "workspace file write only supports regular file targets"},
			{request: `{"action":"delete_workspace_path"}`, err: "workspace file delete does not support directories"},
		})
		if header, _ := b.export(t, "/workspace"); header["workspace_path"] != "/workspace" {
			t.Errorf("got %v", header)
		}
	})
}
