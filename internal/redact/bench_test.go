package redact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// logText is what commands print: log lines, with something to find in one
// of fifty.
func logText(n int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "2024-05-%02d 12:%02d:07.%03d INFO  worker-%d: fetched /api/v1/items/%d?page=%d in %d ms (status 200, %d bytes), next: retry=false\n",
			i%28+1, i%60, i%1000, i%8, i*7919%100003, i%40, i%900, i*31%70000)
		if i%50 == 0 {
			b.WriteString("user john.doe@example.org from 10.0.0.7 opened https://example.org/a?b=c for JIRA-42, token value-number-07-of-many\n")
		}
	}
	return []byte(b.String())[:n]
}

func twenty() []string {
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf("%cvalue-number-%02d-of-many", "abcdefghijklmnopqrst"[i], i))
	}
	return values
}

var (
	builtins    = []policy.Redaction{{Type: policy.RedactEmail}, {Type: policy.RedactCreditCard}, {Type: policy.RedactIP}, {Type: policy.RedactMACAddress}, {Type: policy.RedactURL}}
	expressions = []policy.Redaction{
		{Name: "ticket", Pattern: "JIRA-[0-9]+"}, {Name: "key", Pattern: "sk-[A-Za-z0-9]{20,48}"}, {Name: "aws", Pattern: "(AKIA|ASIA)[0-9A-Z]{16}"},
		{Name: "ssn", Pattern: `\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`}, {Name: "secret", Pattern: `(?i)(password|secret|token)\s*[:=]\s*\S+`},
	}
	hard = []policy.Redaction{
		{Name: "a", Pattern: `\w+@corp\.example`}, {Name: "b", Pattern: `[a-z]+_key`}, {Name: "c", Pattern: `(?i)[a-z0-9]{32}`},
		{Name: "d", Pattern: `(?m)^ERROR.*$`}, {Name: "e", Pattern: `[0-9]{4}-[0-9]{2}-[0-9]{2}T`},
	}
)

func BenchmarkRedact(b *testing.B) {
	text := logText(4 << 20)
	for _, bb := range []struct {
		name   string
		values []string
		rules  []policy.Redaction
	}{
		{"20 values", twenty(), nil},
		{"20 values and 5 types", twenty(), builtins},
		{"20 values and 5 expressions", twenty(), expressions},
		{"20 values and 5 hard expressions", twenty(), hard},
	} {
		b.Run(bb.name, func(b *testing.B) {
			set, err := compiled(bb.values, bb.rules...)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w := NewWriter(set, discard{})
				for rest := text; len(rest) > 0; rest = rest[min(64<<10, len(rest)):] {
					_, _ = w.Write(rest[:min(64<<10, len(rest))])
				}
				_ = w.Close()
			}
		})
	}
}
