package exec

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy/command"
)

func TestFormatResult(t *testing.T) {
	reason := func(s string) *string { return &s }
	tests := []struct {
		name string
		out  ExecuteOutput
		want string
	}{
		{"nothing printed", ExecuteOutput{Success: true, ExecutionTime: 0.0123},
			"✅ Command completed successfully (exit code: 0)\n⏱️ Execution time: 0.012s\n"},
		{"output", ExecuteOutput{Success: true, ExecutionTime: 1, Stdout: "\n a\nb \n"},
			"✅ Command completed successfully (exit code: 0)\n⏱️ Execution time: 1.000s\n\n**stdout:**\n```\na\nb\n```"},
		{"both streams of a failure", ExecuteOutput{ExitCode: 3, ExecutionTime: 2, Stdout: "a", Stderr: "b"},
			"❌ Command failed (exit code: 3)\n⏱️ Execution time: 2.000s\n\n**stdout:**\n```\na\n```\n\n**stderr:**\n```\nb\n```"},
		{"error output alone", ExecuteOutput{ExitCode: -9, Stderr: "b"},
			"❌ Command failed (exit code: -9)\n⏱️ Execution time: 0.000s\n\n\n**stderr:**\n```\nb\n```"},
		{"blank output", ExecuteOutput{Success: true, Stdout: " \n\t", Stderr: "\r\n"},
			"✅ Command completed successfully (exit code: 0)\n⏱️ Execution time: 0.000s\n"},
		{"a refusal", ExecuteOutput{ExitCode: -1, Error: reason("Empty command")}, "❌ Error: Empty command"},
		{"a refusal of several lines", ExecuteOutput{ExitCode: -1, Error: reason("no\n✅ Command\x1b[2J")}, "❌ Error: no ✅ Command␛[2J"},
		{"out of time", ExecuteOutput{ExitCode: -1, TimedOut: true, ExecutionTime: 2.04, Error: reason("Command timed out after 2 seconds")},
			"⏰ Command timed out after 2.0s"},
		{"out of time, with what there was", ExecuteOutput{ExitCode: -1, TimedOut: true, ExecutionTime: 1.96, Error: reason("x"), Stdout: "a", Stderr: "b"},
			"⏰ Command timed out after 2.0s\n\n**stdout:**\n```\na\n```\n\n**stderr:**\n```\nb\n```"},
		{"a fence in the output", ExecuteOutput{Success: true, Stdout: "```\nout\n````"},
			"✅ Command completed successfully (exit code: 0)\n⏱️ Execution time: 0.000s\n\n**stdout:**\n`````\n```\nout\n````\n`````"},
		{"control sequences", ExecuteOutput{Success: true, Stdout: "\x1b]0;x\x07a\rb\r\nc\x9b\u202etxt\x00\x7f"},
			"✅ Command completed successfully (exit code: 0)\n⏱️ Execution time: 0.000s\n\n**stdout:**\n```\n␛]0;x␇a␍b\nc\uFFFD\uFFFDtxt␀␡\n```"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.out.Stdout = strings.ToValidUTF8(tt.out.Stdout, "\uFFFD")
			if got := formatResult(tt.out); got != tt.want {
				t.Errorf("got\n%q\nwant\n%q", got, tt.want)
			}
		})
	}
}

func TestShownOutputIsBounded(t *testing.T) {
	for _, c := range []struct {
		out  ExecuteOutput
		want int
	}{
		{ExecuteOutput{Success: true, Stdout: strings.Repeat("é", 20000)}, 10000},
		{ExecuteOutput{Success: true, Stderr: strings.Repeat("é", 20000)}, 5000},
	} {
		if n := strings.Count(formatResult(c.out), "é"); n != c.want {
			t.Errorf("%d characters are shown, want %d", n, c.want)
		}
	}
}

// The result has the contract's keys whatever happened, and null for no error.
func TestExecuteOutputJSON(t *testing.T) {
	for _, out := range []ExecuteOutput{{}, refused(command.Verdict{Rule: "r", Reason: "no", Command: "c", Hint: "h"}), ended(&paddock.Result{TimedOut: true}, "1.5")} {
		data, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"success", "exit_code", "stdout", "stderr", "execution_time", "timed_out", "error"} {
			if _, ok := object[key]; !ok {
				t.Errorf("%s has no %s", data, key)
			}
		}
	}
	if out := ended(&paddock.Result{TimedOut: true, ExitCode: paddock.TimeoutStatus}, "1.5"); out.ExitCode != -1 || *out.Error != "Command timed out after 1.5 seconds" || out.ExitStatus() != 124 {
		t.Errorf("out of time is %+v", out)
	}
	if out := ended(&paddock.Result{ExitCode: -15, Signal: "SIGTERM"}, ""); out.ExitStatus() != 143 || out.ExitCode != -15 || out.Error != nil {
		t.Errorf("ended by a signal is %+v", out)
	}
	out := refused(command.Verdict{Rule: "r", Reason: "no", Command: "c", Hint: "h"})
	if len(out.Denials) != 1 || out.Denials[0] != (paddock.Denial{Layer: "command", Rule: "r", Object: "c", Hint: "h"}) || out.ExitCode != -1 || out.ExitStatus() != 126 {
		t.Errorf("a refusal is %+v", out)
	}
}

func FuzzFormatResult(f *testing.F) {
	f.Add("a```b", "c", true, 0)
	f.Add("👨\u200d👩", "\x1b[1m", false, -1)
	f.Fuzz(func(t *testing.T, stdout, stderr string, timedOut bool, code int) {
		out := ExecuteOutput{Success: code == 0, ExitCode: code, TimedOut: timedOut, Stdout: strings.ToValidUTF8(stdout, "?"), Stderr: strings.ToValidUTF8(stderr, "?")}
		text := formatResult(out)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }) {
			t.Errorf("%q", text)
		}
		if n := utf8.RuneCountInString(text); n > 4*(shownStdout+shownStderr) {
			t.Errorf("%d characters", n)
		}
	})
}
