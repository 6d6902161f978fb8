package privilege

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNames(t *testing.T) {
	tests := []struct {
		set  Set
		want []string
	}{
		{0, []string{}},
		{AlterPrivileges | UnsandboxedExec, []string{"ALTER_PRIVILEGES", "UNSANDBOXED_EXEC"}},
		{1<<1 | 1<<62 | 1<<63, []string{"bit_1", "bit_62", "STARGAZER_USE"}},
	}
	for _, tt := range tests {
		got := tt.set.Names()
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v: %s", tt.set, diff)
		}
		if back, err := Parse(got...); err != nil || back != tt.set {
			t.Errorf("Parse(%q) = %v, %v, want %v", got, back, err, tt.set)
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		words string
		want  Set
		bad   string
	}{
		{"", 0, ""},
		{"UNSANDBOXED_EXEC", UnsandboxedExec, ""},
		{"unsandboxed-exec Alter", UnsandboxedExec | AlterPrivileges, ""},
		{"unsandboxed alter_privileges stargazer", UnsandboxedExec | AlterPrivileges | StargazerUse, ""},
		{"bit_0 BIT_63 bit-5", 1 | 1<<63 | 1<<5, ""},
		{"0x4 0XfF", 0xff, ""},
		{"0xffffffffffffffff", 1<<64 - 1, ""},
		{"UNSANDBOXED_EXEC root", 0, "root"},
		{"bit_64", 0, "bit_64"}, {"bit_128", 0, "bit_128"}, {"bit_-1", 0, "bit_-1"}, {"bit_", 0, "bit_"},
		{"0x", 0, "0x"}, {"0x1ffffffffffffffff", 0, "0x1ffffffffffffffff"}, {"0x_4", 0, "0x_4"},
		{"4", 0, "4"}, {"ALL", 0, "ALL"}, {"UNSANDBOXED_EXEC,ALTER", 0, "UNSANDBOXED_EXEC,ALTER"},
	}
	for _, tt := range tests {
		got, err := Parse(strings.Fields(tt.words)...)
		wrong := (*NameError)(nil)
		if errors.As(err, &wrong) != (tt.bad != "") || got != tt.want {
			t.Errorf("Parse(%s) = %v, %v, want %v", tt.words, got, err, tt.want)
		}
		if tt.bad != "" && (wrong == nil || wrong.Word != tt.bad || !strings.Contains(err.Error(), "ALTER_PRIVILEGES, UNSANDBOXED_EXEC")) {
			t.Errorf("Parse(%s): %v", tt.words, err)
		}
	}
}

func TestParseMask(t *testing.T) {
	for text, want := range map[string]Set{"0": 0, "4": 4, "0x4": 4, "0XF": 15, "18446744073709551615": 1<<64 - 1} {
		if got, err := ParseMask(text); got != want || err != nil {
			t.Errorf("ParseMask(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.0", "0x", "x4", " 4", "1e3", "18446744073709551616", "0b1"} {
		if got, err := ParseMask(text); err == nil {
			t.Errorf("ParseMask(%q) = %v", text, got)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"user:ann", "123456789", "token:a.b_c@d-e", strings.Repeat("a", 128)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a b", "a/b", "a,b", "a\n", "é", "a\x00", "*", strings.Repeat("a", 129)} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("unsandboxed-exec")
	f.Add("bit_7")
	f.Add("0x4")
	f.Fuzz(func(t *testing.T, word string) {
		set, err := Parse(word)
		if err != nil {
			return
		}
		if again, err := Parse(set.Names()...); err != nil || again != set {
			t.Fatalf("Parse(%q) = %v, whose names give %v, %v", word, set, again, err)
		}
	})
}
