package protect

import (
	"regexp"
	"strings"
	"sync"
)

// shellWords cuts a command line into what may be paths: words, without quotes,
// and what stands behind "=" in them. What is quoted is cut once more, since it
// may be a command line itself.
func shellWords(line string) []string {
	var words []string
	add := func(w string) {
		if w == "" || strings.ContainsRune(w, 0) || len(w) > maxPath {
			return
		}
		words = append(words, w)
		if _, value, ok := strings.Cut(w, "="); ok && value != "" {
			words = append(words, value)
		}
	}
	var b strings.Builder
	quote := rune(0)
	end := func(quoted bool) {
		w := b.String()
		b.Reset()
		add(w)
		if quoted && strings.ContainsAny(w, " \t\n;|&") {
			for _, part := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()`\"'", r) }) {
				add(part)
			}
		}
	}
	quoted := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, quoted = r, true
		case quote == 0 && strings.ContainsRune(" \t\n;|&<>()`", r):
			end(quoted)
			quoted = false
		default:
			b.WriteRune(r)
		}
		if len(words) > maxWords {
			break
		}
	}
	end(quoted)
	return words
}

// interpreter matches programs that execute the file that an operand names.
var interpreter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*/)?(env|(ba|da|z|k|fi)?sh|python[0-9.]*|perl|ruby|node|nodejs|deno|bun|php|lua|awk|make|source|exec|\.)$`)
})
