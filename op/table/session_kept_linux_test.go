package table

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op/internal/session"
)

// Of a session's long output the answer has both ends, and output_read the rest.
func TestSessionOutputIsKept(t *testing.T) {
	for _, budget := range []int{0, 10000} {
		env := lasting(t)
		env.Budget = budget
		well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
		told := func(command string) (session.SessionRunOutput, string) {
			t.Helper()
			out := well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": command})
			var b strings.Builder
			if err := out.Tell(&b); err != nil {
				t.Fatal(err)
			}
			if encoded, err := json.Marshal(out); err != nil || budget > 0 && len(encoded) > budget/2 {
				t.Errorf("%d characters, %v", len(encoded), err)
			}
			return out, b.String()
		}
		if out, text := told("seq 1 200; echo THE ERROR >&2"); out.Kept != "" && budget == 0 || !strings.HasPrefix(text, "Exit code: 0\n1\n2\n") || !strings.Contains(text, "\n200\n[stderr] THE ERROR\n") {
			t.Errorf("%q, %+v", text, out)
		}
		out, text := told("seq 1 9000; echo THE END; false")
		if !strings.HasPrefix(text, "Exit code: 1; some of the output left out\n1\n2\n") || !strings.HasSuffix(text, "\nTHE END\n") || !out.TruncatedByBytes ||
			!strings.Contains(text, fmt.Sprintf(`output_read {"output": %q`, out.Kept)) || strings.Contains(text, "Output truncated") {
			t.Errorf("%q", text)
		}
		if got, lost := readKept(t, env, out.Kept); lost != 0 || !strings.Contains(string(got), "\n4999\n5000\n5001\n") || !strings.HasSuffix(string(got), "\n9000\nTHE END\n") {
			t.Errorf("%d bytes, %d lost", len(got), lost)
		}
		// More than is kept: its end is there all the same.
		out, text = told("seq 1 1000000; echo THE END >&2")
		if !strings.HasPrefix(text, "Exit code: 0; some of the output left out\n1\n2\n") || !strings.HasSuffix(text, "\n[stderr] THE END\n") || out.TotalBytes != 6888904 {
			t.Errorf("%q", text)
		}
		if got, _ := readKept(t, env, out.Kept); len(got) < 2<<20-100 || !strings.Contains(string(got), " bytes are not kept ...\n") {
			t.Errorf("%d bytes are kept", len(got))
		}
		// Who asks for less gets less.
		less := well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": "seq 1 1000", "max_output_lines": 3})
		if less.Text != "1\n2\n3\n\n... Output truncated at 3 lines (observed 1000)." || less.Output != "1\n2\n3" || !less.TruncatedByLines {
			t.Errorf("%+v", less)
		}
		less = well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": "seq 1 60", "max_output_bytes": 100})
		if !strings.HasSuffix(less.Text, "\n36\n\n... Output truncated at 100 bytes (observed 171).") || !less.TruncatedByBytes || less.TruncatedByLines {
			t.Errorf("%+v", less)
		}
		late := well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": "echo before; sleep 1000", "timeout": "300ms"})
		var b strings.Builder
		if err := late.Tell(&b); err != nil || !strings.Contains(b.String(), "timed out") || !strings.Contains(b.String(), "\nbefore\n") {
			t.Errorf("%q %v", b.String(), err)
		}
		// Without a store the contract's bounds hold.
		own := *env
		own.Outputs = nil
		bare := well[session.SessionRunOutput](t, &own, "session_run", fields{"session_id": "s", "command": "seq 1 1000"})
		if !strings.HasSuffix(bare.Text, "\n100\n\n... Output truncated at 100 lines (observed 1000).") {
			t.Errorf("%q", bare.Text)
		}
	}
}
