//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/policy"
)

// redactText is how much is redacted at a time, and redactWrite how much of it
// in one write, in bytes; what the agent reads at once is no less.
const (
	redactText  = 8 << 20
	redactWrite = 64 << 10
)

// measureRedaction measures what output costs that is redacted, all of it in
// one processor: secrets alone, and rules besides.
func measureRedaction(ctx context.Context, b *bench) error {
	types := []policy.Redaction{{Type: policy.RedactEmail}, {Type: policy.RedactCreditCard}, {Type: policy.RedactIP}, {Type: policy.RedactMACAddress}, {Type: policy.RedactURL}}
	words := []policy.Redaction{
		{Name: "ticket", Pattern: "JIRA-[0-9]+"}, {Name: "key", Pattern: "sk-[A-Za-z0-9]{20,48}"}, {Name: "cloud", Pattern: "(AKIA|ASIA)[0-9A-Z]{16}"},
		{Name: "number", Pattern: `\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`}, {Name: "said", Pattern: `(?i)(password|secret|token)\s*[:=]\s*\S+`},
	}
	classes := []policy.Redaction{
		{Name: "mail", Pattern: `\w+@corp\.example`}, {Name: "word", Pattern: `[a-z]+_key`}, {Name: "hex", Pattern: `(?i)[a-f0-9]{32}`},
		{Name: "line", Pattern: `(?m)^ERROR.*$`}, {Name: "day", Pattern: `[0-9]{4}-[0-9]{2}-[0-9]{2}T`},
	}
	text := logLines()
	secrets, errSecrets := redacted("20 secrets", text)
	byTypes, errTypes := redacted("20 secrets, 5 types", text, types...)
	byWords, errWords := redacted("20 secrets, 5 expressions", text, words...)
	byClasses, errClasses := redacted("20 secrets, 5 that begin with classes", text, classes...)
	if err := errors.Join(errSecrets, errTypes, errWords, errClasses); err != nil {
		return err
	}
	if err := interleave(ctx, warmups, b.rounds(20, 5), secrets, byTypes, byWords, byClasses); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("redaction of %d MiB of log lines", redactText>>20), time.Millisecond, secrets, secrets, byTypes, byWords, byClasses),
		atLeast("redaction of 20 secrets", megabytes(secrets), 200, "MB/s"),
		atLeast("redaction with 5 types besides", megabytes(byTypes), 50, "MB/s"),
		atLeast("redaction with 5 expressions besides", min(megabytes(byWords), megabytes(byClasses)), 50, "MB/s"))
	return nil
}

// redacted is the case of a text that passes a set of secrets and rules.
func redacted(name string, text []byte, rules ...policy.Redaction) (*benchCase, error) {
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf("%c0secret-%02d-value", 'a'+i, i))
	}
	compiled, err := redact.Compile(nil, rules)
	if err != nil {
		return nil, err
	}
	set, err := redact.NewSet(values)
	if err != nil {
		return nil, err
	}
	set = set.With(compiled)
	return one(name, func(context.Context) error {
		w := redact.NewWriter(set, io.Discard)
		for rest := text; len(rest) > 0; rest = rest[min(redactWrite, len(rest)):] {
			if _, err := w.Write(rest[:min(redactWrite, len(rest))]); err != nil {
				return err
			}
		}
		return w.Close()
	}), nil
}

// logLines are what a program prints, with something to redact in one line of
// fifty.
func logLines() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < redactText; i++ {
		fmt.Fprintf(&b, "2024-05-%02d 12:%02d:07.%03d INFO  worker-%d: fetched /api/v1/items/%d?page=%d in %d ms (status 200, %d bytes), next: retry=false\n",
			i%28+1, i%60, i%1000, i%8, i*7919%100003, i%40, i%900, i*31%70000)
		if i%50 == 0 {
			b.WriteString("user john.doe@example.org from 10.0.0.7 opened https://example.org/a?b=c for JIRA-42 with h0secret-07-value\n")
		}
	}
	return b.Bytes()[:redactText]
}

func megabytes(c *benchCase) float64 { return redactText / 1e6 / c.sample.median().Seconds() }
