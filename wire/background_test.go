package wire

import (
	"context"
	"net"
	"strings"
	"testing"
)

// A client refuses answers about commands in the background that make no sense.
func TestBackgroundAnswers(t *testing.T) {
	const about = `"id":"e1","command":"c","started_at":1,"ended_at":null,"stdout_bytes":1,"stderr_bytes":0`
	const none = `{"cursor":0,"next_cursor":0,"data_b64":"","dropped_bytes":0,"more":false}`
	for answer, want := range map[string]string{
		`{` + about + `,"state":"running","result":null,"stdout":` + none + `,"stderr":` + none + `}`: "",
		`{` + about + `,"state":"ended","result":null,"stdout":` + none + `,"stderr":` + none + `}`:   "is ended",
		`{` + about + `,"state":"running","result":{"exit_code":0}}`:                                  "is running",
		`{` + about + `,"state":"ended","result":{"exit_code":999}}`:                                  "exit_code 999 is out of range",
		`{"state":"running","stdout_bytes":-1}`:                                                       "a count of bytes is negative",
		`{"state":"running","stdout":{"cursor":0,"next_cursor":9,"data_b64":""}}`:                     "its cursors and its data do not match",
		`{"state":"running","stdout":{"cursor":5,"next_cursor":5,"dropped_bytes":1}}`:                 "its cursors and its data do not match",
		`{"state":"running","stderr":{"cursor":-1,"next_cursor":-1}}`:                                 "its cursors and its data do not match",
	} {
		c := &Client{Dial: func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				_, _ = there.Read(make([]byte, 1<<10))
				_, _ = there.Write([]byte(answer + "\n"))
			}()
			return here, nil
		}}
		_, err := c.ReadExec(t.Context(), ReadExecRequest{ID: "e1"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
	}
}
