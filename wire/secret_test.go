package wire

import (
	"bufio"
	"net"
	"strings"
	"testing"
)

// Lists of secrets and texts that make no sense are errors, and names are safe to print.
func TestSecretAnswers(t *testing.T) {
	answering := func(line string) *Client {
		return pipeClient(t, func(conn net.Conn) {
			if _, err := ReadLine(bufio.NewReader(conn), MaxLine); err == nil {
				_ = writeAll(conn, []byte(line+"\n"))
			}
		})
	}
	if _, err := answering(`{"names":[` + strings.TrimSuffix(strings.Repeat(`"A",`, 129), ",") + `]}`).ListSecrets(t.Context()); err == nil {
		t.Error("an endless list was accepted")
	}
	r, err := answering(`{"names":["A\u001b[1m"],"path":"/run\u0007"}`).DeleteSecrets(t.Context(), "B")
	if err != nil || strings.ContainsAny(r.Names[0]+string(r.Path), "\x1b\a") {
		t.Errorf("%q, %v", r, err)
	}
	if _, err := answering(`{"texts":["a"]}`).RedactTexts(t.Context(), "a", "b"); err == nil {
		t.Error("too few texts were accepted")
	}
	if texts, err := answering(`{"texts":["a","[REDACTED]"]}`).RedactTexts(t.Context(), "a", "b"); err != nil || texts[1] != "[REDACTED]" {
		t.Errorf("%q, %v", texts, err)
	}
	if _, err := answering(`{}`).SetSecrets(t.Context(), SetSecretsRequest{Secrets: map[string]string{"A": "\xff"}}); err == nil {
		t.Error("a value that JSON cannot carry was sent")
	}
}
