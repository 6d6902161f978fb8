package command

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// shapes are what texts are made of: each # is another text, each @ a word.
var shapes = []string{
	"#; #", "# && #", "# || #", "# | #", "# & wait; #", "(#)", "{ #; }", "! #", "time #", "if #; then #; else #; fi", "while #; do #; break; done",
	"until #; do #; break; done", "for x in @ @; do #; done", "for ((i = 0; i < 2; i++)); do #; done", "case @ in @) # ;; *) # ;; esac", "f() { #; }; #", "f() (#); f @", "f() { #; } | #; f", "# | f() { #; }; f", "f() { #; } & f", "f() { #; } && f", "f() { #; } > /dev/null; f", "time f() { #; }; f", "! f() { #; }; f",
	"function g { #; }\n#", "echo \"$(#)\"", "echo `#`", "x=$(#); #", "cat <(#)", "cat <<E\n$(#)\nE\n", "cat <<'E'\n$(#)\nE\n#", "cat <<< @", "trap '#' EXIT; #",
	"[[ -n $(#) ]]", "[[ @ == @ ]] && #", "[ @ = @ ] || #", "test -n @", "x=@; #", "x=1; #; x=@; #", "x=(@ @); #", "declare x=@; #", "declare -a x=@; #", "x=(@); declare x=@; #", "x[0]=@; local x=@", "trap '#' DEBUG; #", "local x=@", "export x=@; #",
	"echo $((1 + 1)); #", "(( x = 1 )); #", "echo $(( x ))", "echo ${a[x]}", "echo ${x:-$(#)}", "echo ${x:=@}", "echo ${x//@/@}", "echo ${y:x:1}", "[[ $x -gt 1 ]]",
	"env A=@ ls", "env # ", "timeout 1 #", "nice #", "echo @ | xargs #", "echo @ | xargs -I{} # {}", "find . -exec # {} +", "find . -exec # \\;", "bash -c '#'", "sh -c '#'", "bash -c @", "sh -c \"#\"",
	"command #", "coproc { #; }; wait", "select x in @; do #; break; done", "read x <<< @; #", "printf -v x @; #", "mapfile x <<< @; #", "set -- @ @; #", "set @; #",
	"getopts x @; #", "unset x; #", "{ #; } 2> /dev/null", "# > /dev/null", "shopt -s nullglob; #", "#\n#", "eval #", "x=@ #", "\\\n#", "#\\\n", "# # @\n#",
}

// leaves are commands, and words that stand for commands.
var leaves = []string{
	"ls", "ls @", "wc -l @", "f", "f @", "g", "x @", "cat @ @", "pwd", "cd .", ":", "true", "false", "git log", "pip list", "pip install x", "sort -- @", "sort @", "$x", "$x @", "\"$@\"",
	"curl x", "l\\s", "l''s", "'cu'rl", "$'\\x63url'", "env", "xargs", "head -1", "ls\t@", "nc", "echo @", "printf '%s' @", "[ @ ]", "test @ @", "[ -v @ ]", "test @ -gt @", "wait", "read x", "echo ${!x}", "echo ${x@P}",
}

// words are what commands are told.
var words = []string{
	"a", "-n", "\"$x\"", "$x", "${x}", "'a b'", "\"a $x b\"", "*", "{a,b}", "~", "$(echo a)", "\"$(echo curl)\"", "'a[$(evil)]'", "'$(evil)'", "\"\\$(evil)\"", "a\\ b", "$'a\\n'", "''", "\"\"",
	"-x", "curl", "'curl x'", "\"ls; curl\"", "'-v'", "-exec", "';'", "$((1 + 1))", "$((x))", "$#", "1", "x", "'x=1'", "PATH", "\\$x", "a=b", "'`evil`'", "'-v a[$(evil)]'", "'($(evil))'", "'x=($(evil))'", "\"$y\"", "y='($(evil))'",
}

// write makes a text of at most so many levels.
func write(r *rand.Rand, depth int) string {
	from := shapes
	if depth <= 0 || r.IntN(4) == 0 {
		from = leaves
	}
	shape := from[r.IntN(len(from))]
	var b strings.Builder
	for _, c := range shape {
		switch c {
		case '#':
			b.WriteString(write(r, depth-1))
		case '@':
			b.WriteString(words[r.IntN(len(words))])
		default:
			b.WriteRune(c)
		}
	}
	return strings.ReplaceAll(b.String(), "$ ", "$# ")
}

// FuzzGrammar is FuzzBash for texts that are put together by the rules of the
// shell, of which more are allowed than of texts of chance.
func FuzzGrammar(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	p := newPrison(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		text := write(rand.New(rand.NewPCG(seed, 1)), 3)
		v := p.rules.Shell(text)
		if !v.Allowed || len(v.Notes) > 0 || unruly.MatchString(text) || writes(v) {
			return
		}
		for _, name := range p.started(t, v.Script) {
			if !slices.Contains(v.Programs, name) {
				t.Fatalf("%q started %s; the verdict names %q", text, name, v.Programs)
			}
		}
	})
}
