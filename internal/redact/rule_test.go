package redact

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

// compiled is a set of values and rules.
func compiled(values []string, rs ...policy.Redaction) (*Set, error) {
	rules, err := Compile(nil, rs)
	if err != nil {
		return nil, err
	}
	set, err := NewSet(values)
	return set.With(rules), err
}

func rules(t testing.TB, rs ...policy.Redaction) *Set {
	t.Helper()
	s, err := compiled(nil, rs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// everywhere checks a text whole, byte by byte and in pieces.
func everywhere(t *testing.T, set *Set, text, want string) {
	t.Helper()
	if got := set.Text(text); got != want {
		t.Errorf("%.100q: got %.300q, want %.300q", text, got, want)
	}
	for _, n := range []int{1, 2, 3, 7, 50} {
		if got := pieces(t, set, text, n); got != want {
			t.Errorf("%.100q in pieces of %d: got %.300q, want %.300q", text, n, got, want)
		}
	}
}

func TestTypes(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for _, tt := range []struct{ kind, text, want string }{
		{policy.RedactEmail, "a@b.co", "[E]"},
		{policy.RedactEmail, "mail john.doe+tag@mail.example.org, now", "mail [E], now"},
		{policy.RedactEmail, "<a@b.co>\r\n'x_y@b-c.info'.", "<[E]>\r\n'[E]'."},
		{policy.RedactEmail, "a@b.co.", "[E]."},
		{policy.RedactEmail, "a@b.co.1 a@1.2.3.4", "[E].1 a@1.2.3.4"},
		{policy.RedactEmail, "root@localhost a@b @b.co a@.co a@b..co", "root@localhost a@b @b.co a@.co a@b..co"},
		{policy.RedactEmail, "a@b.c a@b.c1", "a@b.c a@b.c1"},
		{policy.RedactEmail, "a@münchen.de é@x.fr", "[E] [E]"},
		{policy.RedactEmail, "a@x.xn--p1ai", "[E]"},
		{policy.RedactEmail, "a@b.co@c.de", "[E]"},
		{policy.RedactEmail, "a@\x00b.co a\x00@b.co", "a@\x00b.co a\x00@b.co"},
		{policy.RedactEmail, strings.Repeat("y", 70) + "@b.co", "yyyyyy[E]"},
		{policy.RedactEmail, "to a@b.co and x@y.zz\n", "to [E] and [E]\n"},
		{policy.RedactCreditCard, "4111111111111111", "[E]"},
		{policy.RedactCreditCard, "card 4111-1111-1111-1111.", "card [E]."},
		{policy.RedactCreditCard, "5555 5555 5555 4444\n378282246310005 3782-822463-10005", "[E]\n[E] [E]"},
		{policy.RedactCreditCard, "4222222222222 4222-2222-2222-2", "[E] [E]"},
		{policy.RedactCreditCard, "4111111111111112 4111 1111 1111 1112", "4111111111111112 4111 1111 1111 1112"},
		{policy.RedactCreditCard, "4111 1111-1111 1111", "4111 1111-1111 1111"},
		{policy.RedactCreditCard, "4111  1111 1111 1111", "4111  1111 1111 1111"},
		{policy.RedactCreditCard, "x4111111111111111 4111111111111111x 0.4111111111111111", "x4111111111111111 4111111111111111x 0.4111111111111111"},
		{policy.RedactCreditCard, "2024 4111111111111111 2024", "2024 [E] 2024"},
		{policy.RedactCreditCard, "14111111111111111 41111111111111111111111", "14111111111111111 41111111111111111111111"},
		{policy.RedactCreditCard, "(4111111111111111)", "([E])"},
		{policy.RedactIP, "10.0.0.1", "[E]"},
		{policy.RedactIP, "10.0.0.1:80, 255.255.255.255; 1.2.3.4.", "[E]:80, [E]; [E]."},
		{policy.RedactIP, "256.1.1.1 1.2.3 1.2.3.400 1.2.3.4x v1.2.3", "256.1.1.1 1.2.3 1.2.3.400 1.2.3.4x v1.2.3"},
		{policy.RedactIP, "10.0.0.1.5060 1.2.3.4.5.6.7.8", "[E].5060 [E].[E]"},
		{policy.RedactIP, "http://10.0.0.1/", "http://[E]/"},
		{policy.RedactIP, "::1 fe80::1%eth0 [2001:db8::7]:443", "[E] [E]%eth0 [[E]]:443"},
		{policy.RedactIP, "2001:0db8:85a3:0000:0000:8a2e:0370:7334.", "[E]."},
		{policy.RedactIP, "addr:fe80::1 eth0:fe80::2: up", "addr:[E] eth0:[E]: up"},
		{policy.RedactIP, "::ffff:10.0.0.1 fe80::1.443", "[E] [E].443"},
		{policy.RedactIP, "a :: b std::string Foo::Bar 12:30:45 1::2::3", "a :: b std::string Foo::Bar 12:30:45 1::2::3"},
		{policy.RedactIP, "fe80::1/64", "[E]/64"},
		{policy.RedactIP, "fe80::g", "fe80::g"},
		{policy.RedactMACAddress, "00:1A:2b:3c:4D:5e", "[E]"},
		{policy.RedactMACAddress, "ether 00-1a-2b-3c-4d-5e, 001a.2b3c.4d5e\n", "ether [E], [E]\n"},
		{policy.RedactMACAddress, "00:1a:2b:3c:4d 00:1a-2b:3c:4d:5e 00:1a:2b:3c:4d:5g x00:1a:2b:3c:4d:5e", "00:1a:2b:3c:4d 00:1a-2b:3c:4d:5e 00:1a:2b:3c:4d:5g x00:1a:2b:3c:4d:5e"},
		{policy.RedactMACAddress, "addr:00:1a:2b:3c:4d:5e", "addr:[E]"},
		{policy.RedactURL, "see https://example.org/a?b=c#d.", "see [E]."},
		{policy.RedactURL, `<a href="http://x.org/">(ftp://y/z) s3://bucket`, `<a href="[E]">([E]) [E]`},
		{policy.RedactURL, "postgres://u:p@h:5432/db\r\n", "[E]\r\n"},
		{policy.RedactURL, "a://b c:// ://d 1://x http:/x http:// ", "[E] c:// ://d 1://x http:/x http:// "},
		{policy.RedactURL, "http://[::1]:80/x http://en/w_(x)", "[E] [E]"},
		{policy.RedactURL, "http://h/" + long + " http://h/" + long, "[E] [E]"},
		{policy.RedactURL, "http://h/\x00x", "[E]\x00x"},
	} {
		want := strings.ReplaceAll(tt.want, "[E]", "[REDACTED_"+strings.ToUpper(tt.kind)+"]")
		everywhere(t, rules(t, policy.Redaction{Type: tt.kind}), tt.text, want)
	}
}

func TestExpressions(t *testing.T) {
	for _, tt := range []struct{ pattern, text, want string }{
		{"JIRA-[0-9]+", "JIRA-12, JIRA-x JIRA-7", "[X], JIRA-x [X]"},
		{"JIRA-[0-9]+", "JIRA-1JIRA-2", "[X][X]"},
		{"(?i)token=[a-z]+", "TOKEN=abc Token=ſK TOKEN=é", "[X] [X] TOKEN=é"},
		{"k[a-z]*", "\u212a k", "\u212a [X]"},
		{"(?i)k[a-z]*!", "\u212ab!", "[X]"},
		{`\bkey\b`, "key keys a_key key", "[X] keys a_key [X]"},
		{`(?m)^x.*$`, "x1\nyx\nx2", "[X]\nyx\n[X]"},
		{`a.*b|c`, "acxb c", "[X] [X]"},
		{`a+`, "baaab", "b[X]b"},
		{`[0-9]`, "123", "[X][X][X]"},
		{`a.c`, "a\xffc a\nc aéc", "[X] a\nc [X]"},
		{`(?s)a.c`, "a\x00c a\nc", "[X] [X]"},
		{`[^a]b`, "\xffb ab éb", "[X] ab [X]"},
		{`[α-ω]+\d`, "xαω1 α", "x[X] α"},
		{`\x{10000}`, "\U00010000\U00010001", "[X]\U00010001"},
		{`[\x{7ff}-\x{10001}]`, "\u07fe\u07ff\u0800\uffff\U00010001\U00010002", "\u07fe[X][X][X][X]\U00010002"},
		{`-----BEGIN(?s).*END-----`, "-----BEGIN\nabc\nEND-----\n", "[X]\n"},
		{`x{2,3}y?`, "xxxxy x", "[X] x"},
	} {
		want := strings.ReplaceAll(tt.want, "[X]", "[REDACTED_X]")
		everywhere(t, rules(t, policy.Redaction{Name: "x", Pattern: tt.pattern}), tt.text, want)
	}
}

// Of a match that is too long, the end is found.
func TestLongMatch(t *testing.T) {
	set := rules(t, policy.Redaction{Name: "x", Pattern: "a[b ]*c"})
	text := "a" + strings.Repeat("b ", MaxMatch) + "c."
	want := text[:len(text)-1-MaxMatch] + "[REDACTED_X]."
	everywhere(t, set, text, want)
	// What matches all the while is replaced as a whole.
	set = rules(t, policy.Redaction{Name: "x", Pattern: "ab*"})
	everywhere(t, set, "a"+strings.Repeat("b", 3*MaxMatch)+".", "[REDACTED_X].")
}

func TestStrategies(t *testing.T) {
	const text = "a@b.co"
	for _, tt := range []struct {
		rule       policy.Redaction
		text, want string
	}{
		{policy.Redaction{Type: policy.RedactEmail, Strategy: policy.StrategyRedact}, text, "[REDACTED_EMAIL]"},
		{policy.Redaction{Type: policy.RedactEmail, Strategy: policy.StrategyMask}, "john@example.org é@x.fr", "j***@example.org ***@x.fr"},
		{policy.Redaction{Type: policy.RedactCreditCard, Strategy: policy.StrategyMask}, "4111-1111-1111-1111 378282246310005", "****-****-****-1111 ***********0005"},
		{policy.Redaction{Type: policy.RedactIP, Strategy: policy.StrategyMask}, "192.168.7.1 2001:db8::1 ::1", "192.168.*.* 2001:**** :****"},
		{policy.Redaction{Type: policy.RedactMACAddress, Strategy: policy.StrategyMask}, "00:1a:2b:3c:4d:5e 001a.2b3c.4d5e", "00:1a:2b:**:**:** 001a.2b**.****"},
		{policy.Redaction{Type: policy.RedactURL, Strategy: policy.StrategyMask}, "https://u:p@h:8/p?q http://h", "https://***@h:8/*** http://h"},
		{policy.Redaction{Name: "k", Pattern: "k+", Strategy: policy.StrategyMask}, "kkkkkkkkk", "****"},
		{policy.Redaction{Type: policy.RedactEmail, Strategy: policy.StrategyHash}, text, "<email_hash:80305c9b>"},
		{policy.Redaction{Name: "Ticket-id", Pattern: "J-[0-9]", Strategy: policy.StrategyHash}, "J-1", "<Ticket-id_hash:2d813ba4>"},
		{policy.Redaction{Name: "Ticket-id", Pattern: "J-[0-9]"}, "J-1", "[REDACTED_TICKET-ID]"},
		{policy.Redaction{Type: policy.RedactEmail, Strategy: policy.StrategyBlock}, "before a@b.co after", "before Output blocked: detected email."},
	} {
		everywhere(t, rules(t, tt.rule), tt.text, tt.want)
	}
}

// Where matches of several rules overlap, nothing of either stays.
func TestOverlaps(t *testing.T) {
	set := rules(t, policy.Redaction{Type: policy.RedactURL, Strategy: policy.StrategyMask}, policy.Redaction{Type: policy.RedactIP, Strategy: policy.StrategyMask}, policy.Redaction{Type: policy.RedactEmail}, policy.Redaction{Name: "x", Pattern: "end.*ing", Strategy: policy.StrategyHash})
	everywhere(t, set, "http://10.0.0.1/a http://h/b 10.0.0.2", "[REDACTED_URL] http://h/*** 10.0.*.*")
	everywhere(t, set, "http://a@b.co/", "[REDACTED_URL]")
	everywhere(t, set, "http://h/"+strings.Repeat("y", 3000)+"end 1 ing.", "http://h/***.")
	set = rules(t, policy.Redaction{Type: policy.RedactURL}, policy.Redaction{Type: policy.RedactIP, Strategy: policy.StrategyBlock})
	everywhere(t, set, "x http://10.0.0.1/a y", "x Output blocked: detected ip.")
	long := strings.Repeat("a"+strings.Repeat("c", 200), 50) + "a"
	joined := rules(t, policy.Redaction{Name: "x", Pattern: "a[b-zA-Z-]{1,250}a"}, policy.Redaction{Name: "key", Pattern: "sk-[B]{20,}", Strategy: policy.StrategyBlock})
	for _, at := range []int{100, 4050, 4230, 6000, 7900} { // what is too long to be one region blocks, too
		text := long[:at] + "sk-" + strings.Repeat("B", 25) + long[at+28:]
		for _, n := range []int{1, 7, 50, len(text) + 6} {
			if out := pieces(t, joined, text+"\nafter", n); !strings.HasSuffix(out, "Output blocked: detected key.") {
				t.Errorf("a key at %d, in pieces of %d, is not blocked: %.200q", at, n, out)
			}
		}
	}
	everywhere(t, set, "x http://h/"+strings.Repeat("y", 9000)+"/10.0.0.1/a y", "x [REDACTED_URL]Output blocked: detected ip.")
}

// Values win: rules see what is left.
func TestValuesAndRules(t *testing.T) {
	set, err := compiled([]string{"hunter2", "a@b.co"}, policy.Redaction{Type: policy.RedactEmail})
	if err != nil {
		t.Fatal(err)
	}
	everywhere(t, set, "a@b.co c@d.org hunter2", "[REDACTED] [REDACTED_EMAIL] [REDACTED]")
}

func TestCounts(t *testing.T) {
	set := rules(t, policy.Redaction{Type: policy.RedactEmail}, policy.Redaction{Type: policy.RedactIP, Strategy: policy.StrategyMask}, policy.Redaction{Type: policy.RedactURL}, policy.Redaction{Name: "j", Pattern: "J[0-9]+"}, policy.Redaction{Name: "none", Pattern: "none"})
	text := "a@b.co c@d.org 1.2.3.4 ::ffff:1.2.3.4 http://a@b.co/" + strings.Repeat("x", 5000) + " J12"
	for _, n := range []int{1, 10, 10000} {
		var out bytes.Buffer
		w := NewWriter(set, &out)
		for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
			_, _ = w.Write([]byte(rest[:min(n, len(rest))]))
		}
		_ = w.Close()
		counts := map[string]int64{}
		w.Counts(counts)
		if got, want := fmt.Sprint(counts), "map[email:3 ip:2 j:1 url:1]"; got != want || w.Blocked() != "" {
			t.Errorf("in pieces of %d: got %s, want %s", n, got, want)
		}
	}
}

// A match is given out when nothing can change it any more, and no half of one
// is, however long it takes.
func TestRulesHoldBack(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(rules(t, policy.Redaction{Type: policy.RedactEmail}, policy.Redaction{Type: policy.RedactIP}, policy.Redaction{Name: "j", Pattern: "J-[0-9]+"}), &out)
	for _, step := range []struct{ in, want string }{
		{"Password: ", "Password: "}, {"joe", ""}, {"@ex", ""}, {"ample.org", ""}, {"\n", "[REDACTED_EMAIL]\n"},
		{"10.0", ""}, {".0.1", ""}, {" ", "[REDACTED_IP] "}, {"> J", "> "}, {"-", ""}, {"1", ""}, {" x ", "[REDACTED_J] x "}, {"J", ""}, {"x ", "Jx "},
	} {
		out.Reset()
		_, _ = w.Write([]byte(step.in))
		if out.String() != step.want {
			t.Fatalf("after %q: %q, want %q", step.in, out.String(), step.want)
		}
	}
}

func TestBlocked(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(rules(t, policy.Redaction{Name: "key", Pattern: "sk-[a-z]+", Strategy: policy.StrategyBlock}), &out)
	for _, text := range []string{"a sk-ab", "c", " more", strings.Repeat("x", 1<<20)} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := out.String(), "a "+BlockedText("key"); got != want || w.Blocked() != "key" {
		t.Errorf("got %q, %q, want %q", got, w.Blocked(), want)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRuleErrors(t *testing.T) {
	many := make([]policy.Redaction, policy.MaxRedactions+1)
	for i := range many {
		many[i] = policy.Redaction{Name: fmt.Sprint("n", i), Pattern: "x"}
	}
	for _, tt := range []struct {
		rules []policy.Redaction
		want  string
	}{
		{[]policy.Redaction{{}}, "rule 0: type is not one of email, credit_card, ip, mac_address, url, custom"},
		{[]policy.Redaction{{Type: "mail"}}, "rule 0: type is not one of email, credit_card, ip, mac_address, url, custom"},
		{[]policy.Redaction{{Type: policy.RedactEmail}, {Type: policy.RedactIP, Strategy: "drop"}}, "rule 1: strategy is not one of redact, mask, hash, block"},
		{[]policy.Redaction{{Type: policy.RedactEmail}, {Type: policy.RedactEmail}}, "rule 1: name is that of another rule, too"},
		{[]policy.Redaction{{Pattern: "x"}}, "rule 0: name is needed where there is a pattern"},
		{[]policy.Redaction{{Name: "0x", Pattern: "x"}}, `rule 0: name is not a letter and then letters, digits, "_" and "-", at most 64`},
		{[]policy.Redaction{{Name: "x", Type: policy.RedactCustom}}, "rule 0: pattern is needed for the type custom"},
		{[]policy.Redaction{{Type: policy.RedactEmail, Pattern: "x"}}, "rule 0: pattern goes with the type custom alone"},
		{[]policy.Redaction{{Name: "x", Pattern: "("}}, `rule 0: pattern is no expression in RE2 syntax: missing closing ) "("`},
		{[]policy.Redaction{{Name: "x", Pattern: "x*"}}, "rule 0: pattern matches where nothing is"},
		{[]policy.Redaction{{Name: "x", Pattern: `\b`}}, "rule 0: pattern matches where nothing is"},
		{[]policy.Redaction{{Name: "x", Pattern: "^x"}}, "rule 0: pattern asks for the begin or the end of a text, which a stream has not: (?m) makes ^ and $ those of lines"},
		{[]policy.Redaction{{Name: "x", Pattern: `x\z`}}, "rule 0: pattern asks for the begin or the end of a text, which a stream has not: (?m) makes ^ and $ those of lines"},
		{[]policy.Redaction{{Name: "x", Pattern: `(\pL{30}){30}`}}, "rule 0: pattern makes a program of more than 4096 instructions: use smaller classes and fewer repetitions"},
		{[]policy.Redaction{{Name: "x", Pattern: `(.{30}){30}.{99}`}}, "rule 0: pattern makes a program of more than 4096 instructions: use smaller classes and fewer repetitions"},
		{[]policy.Redaction{{Name: "x", Pattern: strings.Repeat("x", 1025)}}, "rule 0: pattern has more than 1024 bytes"},
		{many, "rule 64 is one too many: there may be 64"},
	} {
		_, err := Compile(nil, tt.rules)
		var e *policy.RedactionError
		if !errors.As(err, &e) || e.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// Rules are added behind those that hold already, and take nothing away from them.
func TestRulesAdded(t *testing.T) {
	mail := policy.Redaction{Type: policy.RedactEmail, Strategy: policy.StrategyMask}
	base, err := Compile(nil, []policy.Redaction{mail, {Name: "key", Pattern: "sk-[a-z]+"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]policy.Redaction{nil, {mail}, {mail.Complete(), {Name: "key", Type: "custom", Pattern: "sk-[a-z]+"}, mail}} {
		if got, err := Compile(base, more); err != nil || got != base {
			t.Errorf("%v again: %v, %v", more, got, err)
		}
	}
	got, err := Compile(base, []policy.Redaction{mail, {Type: policy.RedactIP}})
	if err != nil {
		t.Fatal(err)
	}
	everywhere(t, (*Set)(nil).With(got), "a@b.co sk-x 10.0.0.1", "a***@b.co [REDACTED_KEY] [REDACTED_IP]")
	everywhere(t, (*Set)(nil).With(base), "a@b.co sk-x 10.0.0.1", "a***@b.co [REDACTED_KEY] 10.0.0.1")
	var many, larger []policy.Redaction
	for i := range policy.MaxRedactions - 1 {
		many = append(many, policy.Redaction{Name: fmt.Sprint("n", i), Pattern: "x"})
	}
	for i := range 16 { // each a tenth of what all may have, or so
		larger = append(larger, policy.Redaction{Name: fmt.Sprint("large", i), Pattern: "x.{50}"})
	}
	for _, tt := range []struct {
		more []policy.Redaction
		want string
	}{
		{[]policy.Redaction{mail, {Type: policy.RedactIP}, {Name: "EMAIL", Pattern: "x"}}, "rule 2: name is that of another rule, too"},
		{[]policy.Redaction{{Name: "email", Type: policy.RedactIP}}, "rule 0: name is that of another rule, too"},
		{[]policy.Redaction{mail, {Name: "x", Pattern: "x*"}}, "rule 1: pattern matches where nothing is"},
		{many, "rule 62 is one too many: there may be 64"},
	} {
		_, err := Compile(base, tt.more)
		var e *policy.RedactionError
		if !errors.As(err, &e) || e.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	half, err := Compile(nil, larger[:len(larger)/2])
	if err != nil {
		t.Fatal(err)
	}
	var e *policy.RedactionError
	if _, err = Compile(half, larger); !errors.As(err, &e) || e.Index < len(larger)/2 || e.Reason != "makes all expressions together too large" {
		t.Errorf("got %v", err)
	}
}

// covered are the bytes that lie in some match, by looking for all of them.
func covered(re *regexp.Regexp, text string) []bool {
	all := make([]bool, len(text))
	for i := range text {
		for j := i + 1; j <= len(text); j++ {
			if loc := re.FindStringIndex(text[i:j]); slices.Equal(loc, []int{0, j - i}) {
				for k := i; k < j; k++ {
					all[k] = true
				}
			}
		}
	}
	return all
}

// Every byte that lies in some match is replaced, and no other is.
func TestAgainstRegexp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	piece := func() string {
		return []string{"a", "b", "c", "[ab]", "(ab|a)", "a?", "b*", "c+", "(a|bc)", "[^a]", ".", "(?i:B)"}[rnd.IntN(12)]
	}
	for range 3000 {
		pattern := ""
		for range 1 + rnd.IntN(4) {
			pattern += piece()
		}
		if rnd.IntN(3) == 0 {
			pattern += "|" + piece()
		}
		set, err := compiled(nil, policy.Redaction{Name: "x", Pattern: pattern, Strategy: policy.StrategyRedact})
		if err != nil {
			continue
		}
		var b strings.Builder
		for range rnd.IntN(12) {
			b.WriteByte("abcB\n"[rnd.IntN(5)])
		}
		text, want := b.String(), strings.Builder{}
		all := covered(regexp.MustCompile("^(?:"+pattern+")$"), text)
		for i := range text {
			if !all[i] {
				want.WriteByte(text[i])
			}
		}
		for _, n := range []int{1, 3, 100} {
			if got := strings.ReplaceAll(pieces(t, set, text, n), "[REDACTED_X]", ""); got != want.String() {
				t.Fatalf("%s in %q, in pieces of %d: got %q, want %q", pattern, text, n, got, want.String())
			}
		}
	}
}

var allRules = []policy.Redaction{
	{Type: policy.RedactEmail, Strategy: policy.StrategyMask}, {Type: policy.RedactCreditCard, Strategy: policy.StrategyMask}, {Type: policy.RedactIP, Strategy: policy.StrategyHash}, {Type: policy.RedactMACAddress}, {Type: policy.RedactURL, Strategy: policy.StrategyHash},
	{Name: "ticket", Pattern: "JIRA-[0-9]+", Strategy: policy.StrategyHash}, {Name: "word", Pattern: `\bs[a-z]*t\b`, Strategy: policy.StrategyMask}, {Name: "line", Pattern: "(?m)^#.*$"},
}

// soup makes texts out of what rules look for, and of pieces of it.
func soup(rnd *rand.Rand, n int) string {
	parts := []string{"john@example.org", "4111 1111 1111 1111", "10.0.0.1", "fe80::1", "00:1a:2b:3c:4d:5e", "https://h.org/p?q=1", "JIRA-12", "secret",
		"\n#", " ", "\r\n", ":", ".", "@", "-", "/", "1", "a", "\x00", "\xff", "é", "hunter2", strings.Repeat("x", 300), strings.Repeat("1.", 50), strings.Repeat("a", 2000)}
	var b strings.Builder
	for range n {
		p := parts[rnd.IntN(len(parts))]
		if rnd.IntN(3) == 0 {
			p = p[rnd.IntN(len(p)):]
		}
		if rnd.IntN(3) == 0 {
			p = p[:rnd.IntN(len(p)+1)]
		}
		b.WriteString(p)
	}
	return b.String()
}

// The result does not depend on how the stream is cut.
func TestPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	set, err := compiled([]string{"hunter2", "secret-value"}, allRules...)
	if err != nil {
		t.Fatal(err)
	}
	for range 1500 {
		text := soup(rnd, rnd.IntN(60))
		want := set.Text(text)
		var out bytes.Buffer
		w := NewWriter(set, &out)
		for rest := text; rest != ""; {
			n := min(len(rest), 1+rnd.IntN(1<<rnd.IntN(10)))
			_, _ = w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		_ = w.Close()
		if out.String() != want {
			i := 0
			for i < min(out.Len(), len(want)) && out.Bytes()[i] == want[i] {
				i++
			}
			t.Fatalf("%q: from byte %d on got %.200q, want %.200q", text, i, out.Bytes()[i:], want[i:])
		}
	}
}

// busy is the processor time that this process has used: what else the machine does
// does not count.
func busy() time.Duration {
	var use unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &use) // it knows itself
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// Texts that are made to be slow are not, and what is held back is bounded.
func TestAdversarial(t *testing.T) {
	for name, unit := range map[string]string{
		"mail": "a@", "domains": "a@b.co@", "digits": "1", "cards": "4111 1111 ", "numbers": "1.", "colons": ":", "hex": "a:", "pairs": "aa:", "url": "a://",
		"long url": "http://" + strings.Repeat("x", 100), "points": "....", "letters": "aaaa", "tickets": "JIRA-", "hash": "#", "nul": "\x00", "bytes": "\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(unit, 1<<18/len(unit)) // the race detector takes 40 times as long
			rs := append(append([]policy.Redaction(nil), allRules...), policy.Redaction{Name: "greedy", Pattern: "(?s)a.*b.*cc"}, policy.Redaction{Name: "classes", Pattern: `\w+@\w+\.\w{9}`})
			began := busy()
			w := NewWriter(rules(t, rs...), discard{})
			for rest := text; rest != ""; rest = rest[min(1000, len(rest)):] {
				_, _ = w.Write([]byte(rest[:min(1000, len(rest))]))
				if held := len(w.filter.w.b); held > 16<<10 {
					t.Fatalf("%d bytes are held back", held)
				}
			}
			_ = w.Close()
			took := busy() - began
			t.Log(took)
			if took > 10*time.Second {
				t.Errorf("%v for %d bytes", took, len(text))
			}
		})
	}
}

func FuzzRules(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		f.Add(soup(rnd, 20), "J-[0-9]+|x.y", 3)
	}
	f.Fuzz(func(t *testing.T, text, pattern string, n int) {
		rs := append([]policy.Redaction(nil), allRules...)
		set, err := compiled([]string{"hunter2"}, append(rs, policy.Redaction{Name: "fuzz", Pattern: pattern, Strategy: policy.StrategyHash})...)
		if err != nil {
			set, _ = compiled([]string{"hunter2"}, rs...)
		}
		whole := set.Text(text)
		if got := pieces(t, set, text, 1+n&0xff); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
	})
}
