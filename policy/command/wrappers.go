package command

import "strings"

// wrappers are the programs that start the command in their arguments, with the grammar of
// the arguments in front of it.
var wrappers = map[string]grammar{
	"timeout": {short: "v", valued: "ks", long: "foreground preserve-status verbose", longOf: "kill-after signal", operands: 1},
	"nice":    {valued: "n", longOf: "adjustment", digits: true},
	"ionice":  {short: "t", valued: "cn", long: "ignore", longOf: "class classdata"},
	"nohup":   {},
	"setsid":  {short: "cfw", long: "ctty fork wait"},
	"stdbuf":  {valued: "ioe", longOf: "input output error"},
	"time":    {short: "pvqa", valued: "fo", long: "portability verbose quiet append", longOf: "format output"},
	"chrt":    {short: "abfoirdRv", valued: "TPD", long: "all-tasks batch fifo other idle rr deadline reset-on-fork verbose", longOf: "sched-runtime sched-period sched-deadline", operands: 1},
	"taskset": {short: "ac", long: "all-tasks cpu-list", operands: 1},
	"setpriv": {short: "d", long: "dump no-new-privs nnp clear-groups keep-groups init-groups reset-env",
		longOf: "groups inh-caps ambient-caps bounding-set ruid euid rgid egid reuid regid securebits pdeathsig"},
	"unshare": {short: "rfcin", optional: "muipUCT", long: "map-root-user map-current-user fork keep-caps kill-child mount-proc", longOf: "setuid setgid root wd"},
	"chroot":  {long: "skip-chdir", longOf: "groups userspec", operands: 1},
	"sudo": {short: "AbEHnPSkB", valued: "ugpCTRDhrt", long: "background preserve-env set-home non-interactive preserve-groups stdin reset-timestamp",
		longOf: "user group prompt close-from command-timeout chroot chdir host role type", assigns: true},
	"doas":      {short: "n", valued: "u"},
	"setarch":   {short: "vRFZLXBIS3", long: "verbose addr-no-randomize"},
	"strace":    {short: "cCdfFhiknqrtTvVwxyYzZ", valued: "abeIOpPsSuUX"},
	"ltrace":    {short: "cCfhiLrStTV", valued: "adDeFlnpsux"},
	"catchsegv": {},
	"choom":     {valued: "n", longOf: "adjust"},
	"prlimit":   {},
	"numactl":   {},
	"tini":      {short: "gsvw", valued: "pe"},
	"dumb-init": {short: "cv"},
	"gosu":      {operands: 1},
	"su-exec":   {operands: 1},
	"fakeroot":  {},
	"xvfb-run":  {short: "al", long: "auto-servernum listen-tcp", valued: "efnspw"},
}

// unjudgeable are the programs that start others in ways that cannot be judged.
var unjudgeable = map[string]string{
	"parallel": "puts the commands it starts together at run time", "ld.so": "loads any file as a program",
	"ld-linux.so": "loads any file as a program", "start-stop-daemon": "starts what runs on without the shell",
	"systemd-run": "has others start programs", "bwrap": "starts programs in ways that cannot be judged here",
	"firejail": "starts programs in ways that cannot be judged here", "nsenter": "starts programs elsewhere",
	"ldd": "may start what it is pointed at", "runcon": "starts programs in another security context", "runuser": "starts the shell of another user", "pkexec": "starts programs as another user", "at": "has others start programs", "batch": "has others start programs",
	"crontab": "has others start programs", "expect": "starts what its script says", "entr": "starts programs whenever files change",
	"unbuffer": "starts what its script says", "rlwrap": "starts programs in ways that cannot be judged here",
	"ssh-agent": "starts programs in ways that cannot be judged here", "proxychains": "loads a library into what it starts", "torsocks": "loads a library into what it starts",
	"dbus-run-session": "starts programs in ways that cannot be judged here", "capsh": "starts a shell", "perf": "starts programs in ways that cannot be judged here",
	"valgrind": "starts programs in ways that cannot be judged here", "pdsh": "starts programs elsewhere", "run-parts": "runs whatever is in a directory",
}

// ownJudges are the programs whose arguments have a special grammar.
var ownJudges map[string]func(c *checker, base string, args []arg)

func init() {
	ownJudges = map[string]func(*checker, string, []arg){
		"env": judgeEnv, "xargs": judgeXargs, "find": judgeFind, "sh": judgeShell, "bash": judgeShell, "zsh": judgeShell, "fish": judgeShell,
		"python": judgePython, "git": judgeGit, "busybox": judgeBusybox, "toybox": judgeBusybox,
		"su": judgeSu, "script": judgeScript, "watch": judgeWatch, "flock": judgeFlock, "npx": judgeNpx,
	}
}

// judgeEnv judges env, which starts a command in another environment.
func judgeEnv(c *checker, base string, args []arg) {
	g := grammar{
		short: "i0v", valued: "uC", assigns: true,
		long:   "ignore-environment null debug list-signal-handling block-signal default-signal ignore-signal",
		longOf: "unset chdir",
	}
	for i, a := range args[1:] {
		if a.constant && a.text == "-" { // short for -i
			args = append(append([]arg(nil), args[:i+1]...), args[i+2:]...)
			break
		}
		if !a.constant || a.text == "" || a.text[0] != '-' {
			break
		}
		if strings.HasPrefix(a.text, "-u") || strings.HasPrefix(a.text, "--unset") {
			name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(a.text, "--unset"), "-u"), "=")
			if name == "" && i+2 < len(args) {
				name = args[i+2].text
			}
			if DangerousVariable(name) {
				c.refuse(a.at, RuleAssignment, base, "unsetting "+name+" would change which programs run or what they do", "")
			}
		}
	}
	if dir, given := g.valueOf(args, 'C', "chdir"); given {
		c.words = append(c.words, pathWord{kind: scopeBegins},
			pathWord{kind: pathChange, command: base, text: dir.text, constant: dir.constant, home: c.homeOf(dir), in: c, at: dir.at})
		defer func() { c.words = append(c.words, pathWord{kind: scopeEnds}) }()
	}
	c.wrapper(base, g, args)
}

// valueOf returns the value of an option in a wrapper's own words; of several the last.
func (g grammar) valueOf(args []arg, letter byte, name string) (value arg, given bool) {
	for i := 1; i < len(args) && len(args[i].text) > 1 && args[i].text[0] == '-' && args[i].text != "--"; i++ {
		a := args[i]
		long, isLong := strings.CutPrefix(a.text, "--")
		at := strings.IndexByte(a.text, letter)
		if !isLong && strings.ContainsAny(a.text[1:max(at, 1)], g.valued) {
			at = -1 // it is in another option's value
		}
		takes, _ := g.option(a.text)
		switch {
		case isLong && strings.HasPrefix(long, name+"="):
			value, given = a, true
			value.text = long[len(name)+1:]
		case !isLong && at > 0 && at+1 < len(a.text):
			value, given = a, true
			value.text = a.text[at+1:]
		case takes && i+1 < len(args) && (isLong && long == name || at > 0):
			value, given = args[i+1], true
		}
		if takes {
			i++
		}
	}
	return value, given
}

// judgeXargs judges xargs, which appends words of its input to a command, or replaces a
// mark in it by them.
func judgeXargs(c *checker, base string, args []arg) {
	g := grammar{
		short: "0oprtx", valued: "aEdLnPs", optional: "el",
		long:   "null open-tty interactive no-run-if-empty verbose exit show-limits eof max-lines",
		longOf: "arg-file delimiter max-args max-procs max-chars process-slot-var",
	}
	if file, given := g.valueOf(args, 'a', "arg-file"); given {
		c.words = append(c.words, pathWord{kind: pathRedirect, command: base, text: file.text, constant: file.constant, home: c.homeOf(file), in: c, at: file.at})
	}
	own, mark := replaceMark(g, args)
	inner, ok := c.unwrap(base, g, own)
	if !ok {
		return
	}
	if len(inner) == 0 {
		c.programs["echo"] = true
		return
	}
	filled := make([]arg, 0, len(inner)+1)
	for _, a := range inner {
		if mark != "" {
			a = a.filled(mark)
		}
		filled = append(filled, a)
	}
	if mark == "" {
		filled = append(filled, arg{split: true, many: true, at: args[0].at, word: args[0].word})
	}
	c.program(filled)
}

// replaceMark removes the options that name the text to replace, and returns that text,
// or "" if xargs appends.
func replaceMark(g grammar, args []arg) (own []arg, mark string) {
	own = append(own, args[0])
	rest := args[1:]
	for len(rest) > 0 && rest[0].constant && len(rest[0].text) > 1 && rest[0].text[0] == '-' && rest[0].text != "--" {
		text := rest[0].text
		switch {
		case text == "-I" && len(rest) > 1 && rest[1].constant:
			mark, rest = rest[1].text, rest[2:]
			continue
		case text == "-i" || text == "--replace":
			mark, rest = "{}", rest[1:]
			continue
		case strings.HasPrefix(text, "-I") || strings.HasPrefix(text, "-i"):
			mark, rest = text[2:], rest[1:]
			continue
		case strings.HasPrefix(text, "--replace="):
			mark, rest = text[len("--replace="):], rest[1:]
			continue
		}
		own, rest = append(own, rest[0]), rest[1:]
		if value, _ := g.option(text); value && len(rest) > 0 {
			own, rest = append(own, rest[0]), rest[1:]
		}
	}
	return append(own, rest...), mark
}

// filled returns the word after a mark in it was replaced by unknown text.
func (a arg) filled(mark string) arg {
	head, _, found := strings.Cut(a.text, mark)
	if found && a.constant {
		a.text, a.constant, a.split = head, false, false
		a.lead, a.whole = "", false
	}
	return a
}

// findValued are the predicates of find that take one word.
const findValued = "-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename " +
	"-links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype -samefile -size -type -uid -used -user " +
	"-wholename -xtype -fprint -fprint0 -fls -files0-from -D -newerXY"

// findPlain are the predicates that take none.
const findPlain = "-H -L -P -a -and -o -or -not -daystart -delete -depth -d -empty -executable -false -follow -ignore_readdir_race " +
	"-noignore_readdir_race -ls -mount -nogroup -noleaf -nouser -nowarn -print -print0 -prune -quit -readable -true -warn -writable -xdev " +
	"-help --help -version --version -O0 -O1 -O2 -O3"

// judgeFind judges find. A program that it executes is judged like any other.
func judgeFind(c *checker, base string, args []arg) {
	for rest := args[1:]; len(rest) > 0 && c.denial == nil; {
		a := rest[0]
		rest = rest[1:]
		switch {
		case !a.constant:
			c.requireNotOption(a, base)
		case len(a.text) < 2 || a.text[0] != '-' || hasWord(findPlain, a.text):
		case a.text == "-exec" || a.text == "-execdir" || a.text == "-ok" || a.text == "-okdir":
			rest = c.findExec(a, base, rest)
		case a.text == "-fprintf":
			rest = c.findValue(base, rest, 2)
		case hasWord(findValued, a.text) || len(a.text) == len("-newerXY") && strings.HasPrefix(a.text, "-newer"):
			rest = c.findValue(base, rest, 1)
		default:
			c.refuse(a.at, RuleArgument, base, "the word "+quote(a.text)+" of "+base+" is unknown, so that what it does cannot be checked", "")
		}
	}
}

// findValue skips the values of a predicate.
func (c *checker) findValue(base string, rest []arg, count int) []arg {
	for range count {
		if len(rest) == 0 {
			return nil
		}
		if rest[0].many {
			c.refuse(rest[0].at, RuleArgument, base, "this may become several words, and predicates of "+base+": "+c.source(rest[0]), "put it in quotes")
			return nil
		}
		rest = rest[1:]
	}
	return rest
}

// findExec judges the command of -exec up to its end, and returns the words that follow.
func (c *checker) findExec(at arg, base string, rest []arg) []arg {
	var inner []arg
	for i, a := range rest {
		if a.constant && a.text == ";" || a.constant && a.text == "+" && i > 0 && rest[i-1].constant && rest[i-1].text == "{}" {
			if len(inner) > 0 {
				c.program(inner)
			}
			return rest[i+1:]
		}
		if a.split {
			c.refuseWrapped(a, base)
			return nil
		}
		if !a.constant && a.text == "" && !c.requireWord(a, Verdict{ // it may be the end, with another predicate behind
			Rule: RuleWrapper, Command: base, Reason: "this may end what " + base + " executes, and begin something else: " + c.source(a),
			Hint: "give the variable a value in this text, or put constant text in front of it",
		}) {
			return nil
		}
		inner = append(inner, a.found())
	}
	if len(inner) > 0 {
		c.program(inner)
	}
	c.refuse(at.at, RuleWrapper, base, "the end of what "+at.text+" executes is missing", `end it with \;`)
	return nil
}

// found returns the word after {} in it was replaced by the path of a file. No path that
// find makes begins with a dash.
func (a arg) found() arg {
	head, _, found := strings.Cut(a.text, "{}")
	if found && a.constant {
		a.text, a.constant = head, false
		if head == "" {
			a.text = "./"
		}
	}
	return a
}
