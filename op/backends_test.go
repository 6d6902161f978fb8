package op

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

func TestSplitWords(t *testing.T) {
	tests := []struct {
		text   string
		words  []string
		reason string
	}{
		{"ssh host", []string{"ssh", "host"}, ""},
		{"  a\t b  ", []string{"a", "b"}, ""},
		{`a 'b c' "d e" f\ g`, []string{"a", "b c", "d e", "f g"}, ""},
		{`a'b'"c"\d`, []string{"abcd"}, ""},
		{`a '' ""`, []string{"a", "", ""}, ""},
		{`'$x' "a\"b\\c\d\$" \$y`, []string{"$x", `a"b\c\d$`, "$y"}, ""},
		{"kubectl exec -i pod --", []string{"kubectl", "exec", "-i", "pod", "--"}, ""},
		{"bwrap --bind / / --setenv A=b,c:d@e%f^g", []string{"bwrap", "--bind", "/", "/", "--setenv", "A=b,c:d@e%f^g"}, ""},
		{"ünï cödé", []string{"ünï", "cödé"}, ""},
		{"", nil, "it is empty"},
		{" \t", nil, "it is empty"},
		{"a 'b", nil, "a ' is not closed"},
		{`a "b`, nil, `a " is not closed`},
		{`a \`, nil, `nothing follows its last \`},
		{"a $b", nil, "it has a $ outside quotes, which a shell would act upon"},
		{`a "$b"`, nil, "it has a $ in double quotes, which a shell would act upon"},
		{"a; b", nil, "it has a ; outside quotes, which a shell would act upon"},
		{"a | b", nil, "it has a | outside quotes, which a shell would act upon"},
		{"a `b`", nil, "it has a ` outside quotes, which a shell would act upon"},
		{"a ~/b", nil, "it has a ~ outside quotes, which a shell would act upon"},
		{"a *", nil, "it has a * outside quotes, which a shell would act upon"},
		{"a\nb", nil, "it has a \n outside quotes, which a shell would act upon"},
	}
	for _, tt := range tests {
		words, reason := splitWords(tt.text)
		if reason != tt.reason || reason == "" && !slices.Equal(words, tt.words) {
			t.Errorf("%q is %q, %q; want %q, %q", tt.text, words, reason, tt.words, tt.reason)
		}
	}
}

// A place of a ceiling opens no socket of the host that is in it. The control has no ceiling.
func TestSocketMounts(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "s")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, tt := range map[string]struct {
		ceiling *policy.Ceiling
		refused bool
	}{
		"no ceiling":              {},
		"a place with it":         {&policy.Ceiling{Mounts: []policy.Place{{Source: dir, Mode: "rw"}}}, true},
		"a place that is it":      {&policy.Ceiling{Mounts: []policy.Place{{Source: at, Mode: "ro"}}}, false},
		"a socket of the ceiling": {&policy.Ceiling{Mounts: []policy.Place{{Source: dir, Mode: "rw"}}, HostSockets: []string{at}}, false},
	} {
		_, err := (&Env{Ceiling: tt.ceiling}).OptionsFor(policy.Spec{Mounts: []policy.Mount{{Source: at, Target: "/run/s", Mode: "ro"}}})
		if refused := err != nil && strings.Contains(err.Error(), "the ceiling does not name it"); refused != tt.refused || (err != nil) != tt.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
