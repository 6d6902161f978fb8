package specfile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/executor"
)

// original is a file as that server has it, all sections included.
const original = `{
  "admin_token": "s3cret",
  "security": {"sensitive_path_patterns": ["/home/"]},
  "mcp": {"transport": "sse", "host": "0.0.0.0", "port": 18089},
  "command": {
    "enabled": true,
    "network_isolated": true,
    "limits": {
      "max_memory_mb": 256,
      "max_cpu_seconds": 30,
      "max_file_size_mb": 10,
      "max_processes": 16,
      "max_open_files": 128,
      "timeout_seconds": 1.5,
      "max_timeout_seconds": 600
    }
  },
  "preview": {"enabled": true}, "admin_web": {}, "fs": {}, "kb": {}, "web_search": {}, "web_crawl": {}, "excel": {}, "image_generator": null
}`

func TestConfig(t *testing.T) {
	got, err := DecodeConfig("config.json", []byte(original))
	if err != nil {
		t.Fatal(err)
	}
	want := executor.Config{
		Network: "none",
		Limits: policy.Limits{
			Memory: 256 * policy.MiB, CPUTime: policy.Duration(30 * time.Second), FileSize: 10 * policy.MiB, Processes: 16,
			OpenFiles: 128, Timeout: policy.Duration(1500 * time.Millisecond), MaxTimeout: policy.Duration(10 * time.Minute),
		},
		Ignored: []string{"admin_token", "security", "mcp", "preview", "admin_web", "fs", "kb", "web_search", "web_crawl", "excel", "image_generator"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Numbers may be in quotes, as the older server took them.
func TestConfigNumbersInQuotes(t *testing.T) {
	got, err := DecodeConfig("config.json", []byte(`{"command": {"limits": {"max_memory_mb": "256", "max_cpu_seconds": " 30\n", "max_processes": "+16", "timeout_seconds": "1.5", "max_timeout_seconds": "600"}}}`))
	want := policy.Limits{Memory: 256 * policy.MiB, CPUTime: policy.Duration(30 * time.Second), Processes: 16,
		Timeout: policy.Duration(1500 * time.Millisecond), MaxTimeout: policy.Duration(10 * time.Minute)}
	if diff := cmp.Diff(want, got.Limits); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestConfigRefuses(t *testing.T) {
	limit := func(text string) string { return `{"command": {"limits": {` + text + "}}}" }
	tests := []struct{ data, want, hint string }{
		{``, "c:1: cannot use config: unexpected end of JSON input", ""},
		{`[]`, "c:1: cannot use config: it must be an object", ""},
		{`{"command": []}`, "c:1: cannot use command: it must be an object", ""},
		{"{\n\"command\": {\n\"enable\": true}}", "c:3: cannot use command.enable: unknown key", ""},
		{"{\n\n\"comand\": {}}", "c:3: cannot use comand: unknown key", ""},
		{`{"command": {"enabled": true, "enabled": false}}`, "c:1: cannot use command.enabled: it is given twice, first on line 1", ""},
		{`{"command": {"network_isolated": "false"}}`, `c:1: cannot use command.network_isolated "false": it must be true or false`, "remove the quotes"},
		{`{"command": {"network_isolated": 0}}`, `c:1: cannot use command.network_isolated "0": it must be true or false`, ""},
		{`{"command": {"enabled": "yes"}}`, `c:1: cannot use command.enabled "yes": it must be true or false`, ""},
		{`{"command": {"enabled": null}}`, `c:1: cannot use command.enabled: it must be true or false`, ""},
		{limit(`"max_memory_mb": "half"`), `c:1: cannot use command.limits.max_memory_mb "half": it must be a whole number`, ""},
		{limit(`"max_memory_mb": ""`), `c:1: cannot use command.limits.max_memory_mb: it must be a whole number`, ""},
		{limit(`"max_memory_mb": "1.5"`), `c:1: cannot use command.limits.max_memory_mb "1.5": it must be a whole number`, ""},
		{limit(`"max_memory_mb": "-1"`), `c:1: cannot use command.limits.max_memory_mb "-1": it must not be negative`, ""},
		{limit(`"max_memory_mb": "+-1"`), `c:1: cannot use command.limits.max_memory_mb "+-1": it must not be negative`, ""},
		{limit(`"max_memory_mb": 1.5`), `c:1: cannot use command.limits.max_memory_mb "1.5": it must be a whole number`, ""},
		{limit(`"max_memory_mb": 1e3`), `c:1: cannot use command.limits.max_memory_mb "1e3": it must be a whole number`, ""},
		{limit(`"max_memory_mb": true`), `c:1: cannot use command.limits.max_memory_mb "true": it must be a whole number`, ""},
		{limit(`"max_memory_mb": 0`), `c:1: cannot use command.limits.max_memory_mb "0": it is less than 4`, ""},
		{limit(`"max_memory_mb": -1`), `c:1: cannot use command.limits.max_memory_mb "-1": it must not be negative`, ""},
		{limit(`"max_memory_mb": 8796093022208`), `c:1: cannot use command.limits.max_memory_mb "8796093022208": it is more than 8796093022207`, ""},
		{limit(`"max_file_size_mb": 99999999999999999999`), `c:1: cannot use command.limits.max_file_size_mb "99999999999999999999": it is more than 8796093022207`, ""},
		{limit(`"max_processes": 3`), `c:1: cannot use command.limits.max_processes "3": it is less than 4`, ""},
		{limit(`"max_open_files": 8`), `c:1: cannot use command.limits.max_open_files "8": it is less than 16`, ""},
		{limit(`"max_cpu_seconds": []`), `c:1: cannot use command.limits.max_cpu_seconds: it must be a whole number`, ""},
		{limit(`"timeout_seconds": 0`), `c:1: cannot use command.limits.timeout_seconds "0": it is less than a millisecond`, ""},
		{limit(`"timeout_seconds": -2`), `c:1: cannot use command.limits.timeout_seconds "-2": it must not be negative`, ""},
		{limit(`"timeout_seconds": NaN`), "c:1: cannot use config: invalid character 'N' looking for beginning of value", ""},
		{limit(`"timeout_seconds": 1e999`), `c:1: cannot use command.limits.timeout_seconds "1e999": it is more than 604800 seconds`, ""},
		{limit(`"timeout_seconds": "soon"`), `c:1: cannot use command.limits.timeout_seconds "soon": it must be a number of seconds`, ""},
		{limit(`"timeout_seconds": "0"`), `c:1: cannot use command.limits.timeout_seconds "0": it is less than a millisecond`, ""},
		{`{"limits": {"max_memory_mb": 64}}`, "c:1: cannot use limits: unknown key", `it belongs into the section "command": {"command": {"limits": …}}`},
		{`{"network_isolated": true}`, "c:1: cannot use network_isolated: unknown key", `it belongs into the section "command": {"command": {"network_isolated": …}}`},
		{limit(`"max_memory": 1`), `c:1: cannot use command.limits.max_memory: unknown key`, ""},
		{strings.Repeat(" ", MaxSize+1), "c: cannot use config: it is larger than 1MiB", ""},
	}
	for _, tt := range tests {
		_, err := DecodeConfig("c", []byte(tt.data))
		if fmt.Sprint(err) != tt.want {
			t.Errorf("%.80s: %v\nwant %s", tt.data, err, tt.want)
			continue
		}
		if e := policy.FieldErrors(err); len(e) != 1 || e[0].Hint != tt.hint {
			t.Errorf("%.80s: hint %q, want %q", tt.data, e[0].Hint, tt.hint)
		}
	}
}

// All problems are told at once, with their lines.
func TestConfigTellsAll(t *testing.T) {
	_, err := DecodeConfig("c", []byte("{\"command\": {\n\"enabled\": 1,\n\"limits\": {\"a\": 1,\n\"max_processes\": -1}}}"))
	var lines []string
	for _, e := range policy.FieldErrors(err) {
		lines = append(lines, fmt.Sprint(e.Line, " ", e.Field))
	}
	if diff := cmp.Diff([]string{"2 command.enabled", "3 command.limits.a", "4 command.limits.max_processes"}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestConfigEmpty(t *testing.T) {
	if got, err := DecodeConfig("config.json", []byte("{}")); err != nil || got.Disabled || got.Network != "" {
		t.Errorf("an empty file is %+v, %v", got, err)
	}
}
