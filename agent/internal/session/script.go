package session

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// A session's shell reads lines from its descriptor 0, which only the agent writes to:
// each command runs with another standard input, and the shell's private descriptors
// are closed in every program that it executes. The shell is started as an interactive
// one, because only such a shell keeps all its state after an interrupt,
// a syntax error or a variable that is not set.
//
// A command is sent as one line, which the shell reads completely before the command
// begins, so that a command that reads the shell's input cannot consume part of it. The
// second half of the line reports over another private descriptor, with a word that
// commands cannot guess. The lines use nothing else of the shell: no alias, in bash one
// variable and one function, which are removed before the command begins, and no builtin
// that a function could replace without being noticed.

// Descriptors that a shell is started with, and how many there are.
const (
	givenInput = iota
	_
	_
	givenStdin
	givenReport
	givenTell
	givenText
	givenFDs
)

// Descriptors in the shell. Shells other than bash accept only numbers of one digit.
const (
	shellTempFD   = "39"
	shellStdinFD  = "40" // a memory file with the command's standard input
	shellTextFD   = "41" // one with bashText
	shellTellFD   = "42" // one with bashTell
	shellReportFD = "43"

	otherStdinFD  = "8"
	otherReportFD = "9"
)

// savedState is the part of a shell's state that the lines between two commands would
// disturb. It is saved after each command and restored before the next.
type savedState struct {
	status int    // of the last command
	flags  string // the shell's options, of which v and x are restored
	set    string // commands that set bash's traps DEBUG, ERR and RETURN
	exec   bool   // bash: a function has the name exec
	traps  bool   // bash: there may be traps
}

// withWord puts a report's word where a line has an at sign.
func withWord(line, word string) string { return strings.ReplaceAll(line, "@", word) }

// bootLine returns the line that puts the private descriptors in their places, and
// reports whether the shell is bash.
func bootLine(word string) string {
	const closing = " 3<&- 4<&- 5<&- 6<&-; " // the descriptors that it was started with
	return withWord(`PS1= PS2=; case ${BASH_VERSION-} in `+
		`?*) \set +o history; \unset HISTFILE; \exec `+shellStdinFD+`<&3 `+shellReportFD+`>&4 `+shellTellFD+`<&5 `+shellTextFD+`<&6`+closing+
		`\printf '\n@ 0 bash\n\n\n@.\n' >&`+shellReportFD+`;; `+
		`*) \exec `+otherStdinFD+`<&3 `+otherReportFD+`>&4`+closing+`\printf '\n@ 0 other\n\n\n@.\n' >&`+otherReportFD+`;; esac; \unset MAILCHECK`+"\n", word)
}

// bashText is the content of a file that makes bash run the two texts of an array, which the
// line sets each time: what goes before a command, and the command. The first defines a function
// that removes both, and returns the status of the last command; its argument outlives it in $_.
// The command is a text of its own, because bash shows the line that an error of syntax is in; it
// counts on from the line of the eval, the first. In a file return is allowed.
const bashText = `\builtin eval "${__paddock[0]}"; __paddock "${__paddock[1]}"; \builtin eval -- "$_"` + "\n"

const bashForget = `\builtin unset __paddock; `

// bashLine returns the line that runs a command and reports. Each redirection here
// copies a high descriptor. Bash saves the replaced descriptor under an even higher
// number, where it does not collide with descriptors of the command.
func bashLine(command, word string, c savedState, stdin bool) string {
	const (
		aside  = " " + shellStdinFD + "<&" + shellTextFD + " " + shellTellFD + "<&" + shellTextFD + " " + shellTextFD + "<&" + shellReportFD
		gone   = " " + shellStdinFD + "<&- " + shellTextFD + "<&- " + shellTellFD + "<&- " + shellReportFD + ">&-; "
		report = `\builtin . /proc/self/fd/` + shellTellFD + ` @ "$?" "$-" >&` + shellReportFD + " 2>&" + shellReportFD + "\n"
	)
	open, input, from := "", shellTextFD, "0</dev/null"
	if stdin {
		open, input, from = " "+shellTempFD+"</proc/self/fd/"+shellStdinFD, shellTempFD, shellTempFD+"<&-"
	}
	closing := `\exec ` + from + gone
	if c.exec { // only the POSIX mode finds the builtin before the function
		closing = `POSIXLY_CORRECT=1; ` + closing + `\unset POSIXLY_CORRECT; `
	}
	status, resumed := c.status, resume(c)
	if strings.ContainsRune(c.flags, 'e') {
		status = 0
	}
	if c.set != "" || strings.ContainsAny(c.flags, "vx") || blank().MatchString(command) {
		// Traps and traces would tell of the eval, and one of nothing has a status of its own.
		status, command = 0, strings.TrimSuffix(resumed, "\n")+"\n"+command
	}
	before := closing + `__paddock() { \builtin unset -f __paddock; ` + bashForget + `\builtin return ` + strconv.Itoa(status) + `; }`
	line := `__paddock=(` + singleQuoted(before) + ` ` + singleQuoted(command) + `); \builtin . /proc/self/fd/` + shellTextFD + ` ` +
		shellReportFD + `>&` + shellTextFD + open + aside + ` 0<&` + input + `; `
	if c.traps {
		return line + bashReport(word)
	}
	return line + withWord(report, word)
}

// blank matches commands that do nothing: comments and white space.
var blank = lazyregexp.New(`^([ \t]*(#.*)?(\n|$))*$`)

// singleQuoted makes a text one word of a shell's.
func singleQuoted(text string) string { return `'` + strings.ReplaceAll(text, "'", `'\''`) + `'` }

// bashTell is the content of a file that makes bash report its state. Its arguments are
// a word, the status and the flags. It writes in one piece, since each piece wakes the
// agent.
const bashTell = bashQuiet + `\builtin printf '\n%s %s %s\n%s\n\n%s.\n' "$1" "$2" "$3" "${PWD-}" "$1"; ` + bashForget + bashEnd + "\n"

// bashEnd ends with a syntax error: bash 5.2 corrupts its memory when it reads on
// after a file that ended within $(, and an error resets its parser.
const (
	bashQuiet = `\builtin declare -F exec || \builtin :; \builtin set +vx; `
	bashEnd   = `PS1= PS2=; [[ $- == *e* ]] || \builtin eval \) 2>&-; `
)

// bashReport returns a line that reports, and that lists and removes traps: bash shows
// them only to a line of its own input.
func bashReport(word string) string {
	return withWord(`{ \builtin printf '\n@ %s %s\n%s\n' "$?" "$-" "${PWD-}"; \builtin trap -p DEBUG ERR RETURN; `+
		`\builtin trap - DEBUG ERR RETURN; `+bashQuiet+`\builtin printf '\n@.\n'; `+bashForget+bashEnd+`} >&`+shellReportFD+` 2>&`+shellReportFD+"\n", word)
}

// trapping matches commands that may set traps, also by a file that they read.
var trapping = lazyregexp.New(`trap|source|(^|[\s;&|({])\.\s`)

// bashRescue removes a function with the name builtin, on which all lines depend.
const bashRescue = `POSIXLY_CORRECT=1; \unset -f builtin; \unset POSIXLY_CORRECT; `

// otherLine returns the line that runs a command in a POSIX shell and reports.
func otherLine(command, word string, c savedState, stdin bool) string {
	from := "/dev/null"
	if stdin {
		from = "/proc/self/fd/" + otherStdinFD
	}
	return `\eval ` + singleQuoted(" "+resume(c)+command) + ` <` + from + withWord(` `+otherStdinFD+`<&- `+otherReportFD+`>&-; `+
		`{ \command \printf '\n@ %s %s\n%s\n' "$?" "$-" "${PWD-}"; \set +vx; \command \printf '\n@.\n'; PS1= PS2=; } >&`+otherReportFD+` 2>&`+otherReportFD+"\n", word)
}

// otherReport returns a line that reports by an error message: that uses no builtin
// that a function could replace, and after it the shell reads its next line.
func otherReport(word string) string {
	return withWord("{ \\: \"${__paddock_@?\n@ $? $-\n${PWD-}\n\n@.\n}\"; } 2>&"+otherReportFD+"\n", word)
}

// resume returns the commands that restore what the last report has saved. If the
// shell exits at a failure (-e) or a trap is set, they do not restore the status.
func resume(c savedState) string {
	options := ""
	for _, f := range "vx" {
		if strings.ContainsRune(c.flags, f) {
			options += string(f)
		}
	}
	if options != "" {
		options = `\set -` + options + `; `
	}
	status := ""
	if c.status != 0 && !strings.ContainsRune(c.flags, 'e') && c.set == "" {
		status = `\return ` + strconv.Itoa(c.status) + `; `
	}
	switch {
	case options == "" && status == "":
		return c.set
	case status == "":
		return `{ ` + options + `} 2>/dev/null; ` + c.set
	}
	return `__paddock() { \unset -f __paddock; ` + options + status + `}; { __paddock; } 2>/dev/null; `
}

// shellReport is a report of the shell's state.
type shellReport struct {
	cwd string
	savedState
}

// parseReport finds the report with a word in all that was written so far. Other text,
// such as traces and the output of traps, may be around it.
func parseReport(written []byte, word string) (r shellReport, ok bool) {
	_, rest, ok := bytes.Cut(written, []byte("\n"+word+" "))
	if !ok {
		return r, false
	}
	text, _, ok := bytes.Cut(rest, []byte("\n"+word+"."))
	if !ok {
		return r, false
	}
	head, body, _ := strings.Cut(string(text), "\n")
	status, flags, _ := strings.Cut(head, " ")
	r.flags = flags
	r.status, _ = strconv.Atoi(status)
	r.cwd, body, _ = strings.Cut(body, "\n")
	r.set = parseTraps(body)
	r.exec = bytes.Contains(written, []byte("\nexec\n")) || bytes.HasPrefix(written, []byte("exec\n"))
	return r, true
}

// maxTraps bounds the commands that set traps again before each command, in bytes.
const maxTraps = 64 << 10

// parseTraps reads the output of trap -p, which may be mixed with output of the traps.
func parseTraps(text string) (traps string) {
	rest := "\n" + text
	for len(traps) <= maxTraps {
		_, after, ok := strings.Cut(rest, "\ntrap -- '")
		if !ok {
			return traps
		}
		end := quotedEnd(after)
		signal, _, _ := strings.Cut(after[end:], "\n")
		switch set := "\\builtin trap -- '" + after[:end] + signal + "\n"; signal {
		case " DEBUG": // the last, since it would fire for the others
			traps += set
		case " ERR", " RETURN":
			traps = set + traps
		}
		rest = after[end:]
	}
	return ""
}

// quotedEnd returns the end of a single-quoted word in text, which begins after the
// opening quote.
func quotedEnd(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\'' {
			continue
		}
		if !strings.HasPrefix(text[i:], `'\''`) {
			return i + 1
		}
		i += len(`'\''`) - 1
	}
	return len(text)
}
