package mcp

import "encoding/json"

// brief is the description of a tool that a model reads in each request: a few sentences, and a
// short one for each field of daily work. The operation's other fields, which docs/mcp.md
// lists, are accepted all the same.
type brief struct {
	text   string
	fields map[string]string // by name; "edits.old" is a field of what edits holds
}

// briefs are the briefs of the tools of the workspace profile, by name.
var briefs = map[string]brief{
	"exec": {"Run a command in the sandbox, in /workspace. Files stay for the next call; directory and variables do not (session_run keeps them). " +
		"When it exits, everything it started is ended. Long output is shortened in the middle; output_read reads the rest. For servers use service_start.",
		map[string]string{
			"command":     "Shell text for /bin/sh.",
			"argv":        "Program and arguments, without a shell; instead of command.",
			"cwd":         "Working directory, relative to the workspace.",
			"env":         "Environment variables to set.",
			"stdin":       "Standard input (default: empty).",
			"timeout":     "Time limit, such as 90s or 10m (default 2m).",
			"background":  "Return at once, with an id for output_read and exec_kill.",
			"yield_after": "Wait this long, such as 10s, then leave it in the background.",
		}},
	"exec_kill": {"End a background command and everything it started.", map[string]string{
		"exec":   "Id of the command.",
		"signal": "Only send this signal, such as INT, to the command.",
	}},
	"output_read": {"Read the output of a command: what an answer left out, or what a background command has printed so far.", map[string]string{
		"output": "Id from the answer.",
		"stream": "Default: stdout.",
		"cursor": "Where to begin: next_cursor of the answer before.",
		"tail":   "Begin with the last N lines instead.",
		"wait":   "Wait up to this long, such as 30s, for more output or the end.",
	}},
	"sandbox_status": {"Show the sandbox: limits, isolation, services, sessions, and the latest commands with their ids.", nil},
	"file_read": {"Read a text file with line numbers, which are not part of the text. At most 2000 lines at once; the answer says where to read on. " +
		"A control character is shown as ⟦U+001B⟧, which tools that write take back.",
		map[string]string{
			"path":       "File, relative to the workspace.",
			"start_line": "First line (default 1).",
			"end_line":   "Last line.",
			"encoding":   "base64 reads the bytes of any file.",
			"offset":     "With base64: first byte.",
			"length":     "With base64: number of bytes.",
		}},
	"file_write": {"Create a file, or replace all of its content; directories above it are made. To change a part use file_edit.", map[string]string{
		"path":            "File, relative to the workspace.",
		"content":         "The whole content.",
		"encoding":        "Of content (default: text).",
		"append":          "Add content to the end instead.",
		"expected_sha256": "Fail unless the file still has this SHA-256, which file_read shows.",
		"must_not_exist":  "Fail if the file exists.",
		"mode":            "Permissions, such as 0755.",
	}},
	"file_edit": {"Replace exact text in a file. All edits are made, in order, or none. The answer has a diff.", map[string]string{
		"path":      "File, relative to the workspace.",
		"edits":     "Replacements.",
		"edits.old": "Exact text with its indentation, without line numbers; it must occur once. Empty: create the file.",
		"edits.new": "Text in its place.",
		"edits.all": "Replace every occurrence.",
	}},
	"file_list": {"List a directory with kinds and sizes. To find files use file_search.", map[string]string{
		"path":      "Directory (default: the workspace).",
		"depth":     "Levels to list (default 1).",
		"recursive": "List everything below.",
		"kinds":     "Only these kinds.",
		"all":       "Also what is inside .git.",
		"cursor":    "next_cursor of the answer before.",
	}},
	"file_move": {"Move or rename a file or directory.", map[string]string{
		"path":    "What to move.",
		"target":  "New path, with the name; directories above it are made.",
		"replace": "Replace a file that is there.",
	}},
	"file_delete": {"Delete a file or link, or with recursive a directory.", map[string]string{
		"path":      "What to delete.",
		"recursive": "Delete a directory with everything in it.",
	}},
	"patch_apply": {"Apply a unified diff (git diff, diff -u): all of it or nothing. An error names each hunk that does not fit.", map[string]string{
		"patch":      "The diff.",
		"patch_file": "File that holds the diff, instead of patch.",
		"dir":        "Directory that its paths begin in.",
		"strip":      "Leading names to drop from paths (default: 1 for a/ and b/, else 0).",
		"check":      "Only say whether it applies.",
		"reverse":    "Take the patch back.",
		"recount":    "Ignore line counts in hunk headers.",
	}},
	"file_search": {"Search files by content or by name: bounded, and as fast as rg. Skips .git, binary files and what .gitignore lists.", map[string]string{
		"pattern":     "RE2 expression for a part of a line; without one, glob finds files by name.",
		"path":        "Directory or file (default: the workspace).",
		"glob":        "Only these files: '*.go' anywhere, 'src/**/*.ts' below path.",
		"exclude":     "Leave these out.",
		"fixed":       "pattern is plain text.",
		"ignore_case": "",
		"word":        "Match whole words.",
		"output":      "content: matching lines (default); files: paths; count: matches of each file.",
		"context":     "Lines before and after each match.",
		"no_ignore":   "Also what .gitignore lists.",
		"limit":       "Most lines, or files, of one answer (default 200, 1000).",
		"cursor":      "next_cursor of the answer before.",
	}},
	"session_open": {"Open a shell that stays: its directory, variables and functions persist from one session_run to the next. It has no terminal.", map[string]string{
		"session_id":       "Name (default: a random one).",
		"cwd":              "Where it begins (default: the workspace).",
		"env":              "Variables to set, NAME=VALUE.",
		"command_timeout":  "Time limit of each command (default 30s).",
		"startup_commands": "Run first in each new shell.",
		"shell_command":    "The shell and its arguments (default: /bin/bash).",
	}},
	"session_run": {"Run a command in a session. One that exceeds its time is ended; the answer says whether the shell kept its state.", map[string]string{
		"session_id": "",
		"command":    "Shell text, any number of lines.",
		"stdin":      "Standard input (default: empty).",
		"timeout":    "Time limit (default: the session's).",
		"restart":    "Start a new shell, without the old one's state.",
	}},
	"session_close": {"Close a session, and end everything it started.", map[string]string{"session_id": ""}},
	"service_start": {"Start a command that runs on, such as a server, and wait until it is ready. Commands of the sandbox reach it on 127.0.0.1.", map[string]string{
		"name":          "",
		"command":       "Shell text for /bin/sh.",
		"argv":          "Program and arguments, instead of command.",
		"cwd":           "Working directory.",
		"env":           "Environment variables to set.",
		"ready_port":    "Ready when this port accepts connections.",
		"ready_http":    "Ready when this URL answers with 200 to 399.",
		"ready_file":    "Ready when this file exists.",
		"ready_command": "Ready when this command succeeds.",
		"timeout":       "Time to become ready (default 30s).",
	}},
	"service_stop": {"Stop a service and everything it started.", map[string]string{"name": ""}},
	"service_list": {"List the services of the sandbox.", nil},
	"service_logs": {"Read the last output of a service.", map[string]string{
		"name": "",
		"tail": "Lines of each stream (default 100).",
	}},
}

// schema returns an operation's input schema with only the fields of the brief, and without
// patterns and bounds, which the operation's errors explain.
func (b brief) schema(within json.RawMessage) json.RawMessage {
	var tree map[string]any
	if err := json.Unmarshal(within, &tree); err != nil {
		return json.RawMessage(`{"type":"object"}`) // never for the table's schemas, which tests check
	}
	b.trim(tree, "")
	short := map[string]any{"type": "object", "properties": map[string]any{}}
	if own := tree["properties"]; own != nil {
		short["properties"] = own
	}
	if need := tree["required"]; need != nil {
		short["required"] = need
	}
	text, err := json.Marshal(short)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return text
}

// trim removes parts that a model does not need from an object's schema.
func (b brief) trim(node map[string]any, above string) {
	own, _ := node["properties"].(map[string]any)
	for name, value := range own {
		text, offered := b.fields[above+name]
		field, is := value.(map[string]any)
		if !offered || !is {
			delete(own, name)
			continue
		}
		for _, key := range []string{"pattern", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "description"} {
			delete(field, key)
		}
		if text != "" {
			field["description"] = text
		}
		if several, is := field["type"].([]any); is {
			field["type"] = several[0] // the simplest comes first
			if several[0] != "array" {
				delete(field, "items")
			}
		}
		if items, is := field["items"].(map[string]any); is {
			delete(items, "additionalProperties")
			b.trim(items, above+name+".")
		}
	}
}
