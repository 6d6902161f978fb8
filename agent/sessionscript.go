package agent

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A session's shell reads lines from its descriptor 0, which is the agent's
// alone: each command runs with another standard input, and what the shell
// keeps of its own meanwhile is closed in every program that it executes. It is
// told that it is interactive, because only such a shell survives an interrupt,
// a syntax error and a variable that is not set with all its state.
//
// One line hands a command over, and is read as a whole before the command
// begins, so that a command which reads the shell's input swallows nothing. Its
// second half reports over another private descriptor, with a word that no
// output can guess. Nothing else of the shell is used: no function, no variable,
// no alias, and in bash no word that a function can take the place of without
// being found out.

// Descriptors in the shell. Other shells than bash know those of one digit only.
const (
	shellStdinFD  = 40 // a memory file with the command's standard input
	shellTextFD   = 41 // one with the command's text
	shellTempFD   = 42
	shellReportFD = 43

	otherStdinFD  = 8
	otherReportFD = 9
)

// carried is what of a shell's state the lines between two commands would
// disturb, and so is taken out and put back.
type carried struct {
	status int    // of the last command
	flags  string // of these, v and x
	traps  string // bash's DEBUG, ERR and RETURN, as commands that set them
	exec   bool   // bash: a function has the name exec
}

// bootLine puts the private descriptors in their places, and tells whether
// the shell is bash.
func bootLine(word string) string {
	return fmt.Sprintf(`PS1= PS2=; case ${BASH_VERSION-} in `+
		`?*) \set +o history; \unset HISTFILE; \exec %[1]d<&3 %[2]d<&4 %[3]d>&5 3<&- 4<&- 5>&-; \printf '\n%[6]s 0 bash\n\n\n%[6]s.\n' >&%[3]d;; `+
		`*) \exec %[4]d<&3 %[5]d>&5 3<&- 4<&- 5>&-; \printf '\n%[6]s 0 other\n\n\n%[6]s.\n' >&%[5]d;; esac; \unset MAILCHECK`+"\n",
		shellStdinFD, shellTextFD, shellReportFD, otherStdinFD, otherReportFD, word)
}

// bashText is what the file at shellTextFD holds for a command.
func bashText(command string, c carried, stdin bool) string {
	closing := fmt.Sprintf(`\exec %d<&- %d<&- %d<&- %d>&-; `, shellStdinFD, shellTextFD, shellTempFD, shellReportFD)
	if !stdin {
		closing = fmt.Sprintf(`\exec 0</dev/null %d<&- %d<&- %d>&-; `, shellStdinFD, shellTextFD, shellReportFD)
	}
	if c.exec { // only the POSIX mode finds the builtin before the function
		closing = `POSIXLY_CORRECT=1; ` + closing + `\unset POSIXLY_CORRECT; `
	}
	return closing + resume(c) + command + "\n"
}

// bashLine runs that file and reports. Each redirection here is the copy of a
// high descriptor, and so bash saves what was there above that, out of the way
// of a command's own.
func bashLine(word string, stdin bool) string {
	redirect := fmt.Sprintf("%d>&%d %d<&%d %d<&%d 0<&%d", shellReportFD, shellTextFD, shellStdinFD, shellTextFD, shellTextFD, shellReportFD, shellTextFD)
	if stdin {
		redirect = fmt.Sprintf("%d>&%d %d</proc/self/fd/%d %d<&%d %d<&%d 0<&%d", shellReportFD, shellTextFD, shellTempFD, shellStdinFD,
			shellStdinFD, shellTextFD, shellTextFD, shellReportFD, shellTempFD)
	}
	return fmt.Sprintf(`\builtin . /proc/self/fd/%d %s;`, shellTextFD, redirect) + bashReport(word)
}

// bashReport has bash tell its state. Bash reads it byte by byte, so it is
// short. Its last words are a syntax error: bash 5.2 writes beside its memory
// when it reads on after a file that ended within $(, and an error sets its
// parser right.
func bashReport(word string) string {
	return fmt.Sprintf(`{ \builtin printf '\n%[1]s %%s %%s\n%%s\n' "$?" "$-" "${PWD-}";\builtin trap -p DEBUG ERR RETURN;`+
		`\builtin trap - DEBUG ERR RETURN;\builtin set +vx;\builtin declare -F exec||\builtin :;\builtin echo;\builtin echo %[1]s.;PS1= PS2=;[[ $- == *e* ]]||\builtin eval \);} >&%[2]d 2>&%[2]d`+"\n",
		word, shellReportFD)
}

// bashRescue removes a function that has taken the place of the word on which
// all others rest.
const bashRescue = `POSIXLY_CORRECT=1; \unset -f builtin; \unset POSIXLY_CORRECT; `

// otherLine runs a command in a POSIX shell, and reports.
func otherLine(command, word string, c carried, stdin bool) string {
	from := "/dev/null"
	if stdin {
		from = "/proc/self/fd/" + strconv.Itoa(otherStdinFD)
	}
	text := strings.ReplaceAll(" "+resume(c)+command, "'", `'\''`)
	return fmt.Sprintf(`\eval '%s' <%s %d<&- %d>&-; `, text, from, otherStdinFD, otherReportFD) +
		fmt.Sprintf(`{ \command \printf '\n%[1]s %%s %%s\n%%s\n' "$?" "$-" "${PWD-}"; \set +vx; \command \printf '\n%[1]s.\n'; PS1= PS2=; } >&%[2]d 2>&%[2]d`+"\n", word, otherReportFD)
}

// otherReport reports by an error message, which needs no word that could be
// another's, and after which the shell reads its next line.
func otherReport(word string) string {
	return fmt.Sprintf("{ \\: \"${__paddock_%[1]s?\n%[1]s $? $-\n${PWD-}\n\n%[1]s.\n}\"; } 2>&%[2]d\n", word, otherReportFD)
}

// resume puts back what the last report took out. With options that make each
// failure matter, the status is left as it is.
func resume(c carried) string {
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
	if c.status != 0 && !strings.ContainsRune(c.flags, 'e') && c.traps == "" {
		status = `\return ` + strconv.Itoa(c.status) + `; `
	}
	switch {
	case options == "" && status == "":
		return c.traps
	case status == "":
		return `{ ` + options + `} 2>/dev/null; ` + c.traps
	}
	return `__paddock() { \unset -f __paddock; ` + options + status + `}; { __paddock; } 2>/dev/null; `
}

// shellReport is what the shell has said about itself.
type shellReport struct {
	word string
	cwd  string
	carried
}

// parseReport finds the report with a word in what was written so far. Around
// it there may be anything: what traps print, and traces.
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
	r.word, r.flags = word, flags
	r.status, _ = strconv.Atoi(status)
	r.cwd, body, _ = strings.Cut(body, "\n")
	r.traps, r.exec = parseTraps(body)
	return r, true
}

// maxTraps bounds what is put back before each command, in bytes.
const maxTraps = 64 << 10

// parseTraps reads what trap -p and declare -F have printed, among what traps
// print themselves.
func parseTraps(text string) (traps string, exec bool) {
	exec = strings.Contains("\n"+text+"\n", "\nexec\n")
	rest := "\n" + text
	for len(traps) <= maxTraps {
		_, after, ok := strings.Cut(rest, "\ntrap -- '")
		if !ok {
			return traps, exec
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
	return "", exec
}

// quotedEnd is where a word ends that began with a single quote, before text.
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
