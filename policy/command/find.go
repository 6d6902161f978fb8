package command

import "strings"

// findValued are the predicates of find that take one word.
const findValued = "-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename " +
	"-links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype -samefile -size -type -uid -used -user " +
	"-wholename -xtype -fprint -fprint0 -fls -files0-from -D -newerXY"

// findPlain are those that take none.
const findPlain = "-H -L -P -a -and -o -or -not -daystart -delete -depth -d -empty -executable -false -follow -ignore_readdir_race " +
	"-noignore_readdir_race -ls -mount -nogroup -noleaf -nouser -nowarn -print -print0 -prune -quit -readable -true -warn -writable -xdev " +
	"-help --help -version --version -O0 -O1 -O2 -O3"

// findWords judges find: what it executes is a program like any other.
func findWords(c *checker, base string, args []arg) {
	for rest := args[1:]; len(rest) > 0 && c.denial == nil; {
		a := rest[0]
		rest = rest[1:]
		switch {
		case !a.constant:
			c.noOption(a, base)
		case len(a.text) < 2 || a.text[0] != '-' || hasWord(findPlain, a.text):
		case a.text == "-exec" || a.text == "-execdir" || a.text == "-ok" || a.text == "-okdir":
			rest = c.findExec(a, base, rest)
		case a.text == "-fprintf":
			rest = c.findValue(base, rest, 2)
		case hasWord(findValued, a.text) || len(a.text) == len("-newerXY") && strings.HasPrefix(a.text, "-newer"):
			rest = c.findValue(base, rest, 1)
		default:
			c.refuse(a.at, RuleArgument, base, "the word "+quote(a.text)+" of "+base+" is not known here, so that what it does cannot be told", "")
		}
	}
}

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

// findExec judges the command up to its end, and returns what follows.
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
		if !a.constant && a.text == "" && !c.noEnd(a, base) {
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

// noEnd makes sure that a word that is not constant is not the one that ends
// what is executed: what follows would be another predicate.
func (c *checker) noEnd(a arg, base string) bool {
	refusal := Verdict{
		Rule: RuleWrapper, Command: base, Reason: "this may end what " + base + " executes, and begin something else: " + c.source(a),
		Hint: "give the variable a value in this text, or put constant text in front of it",
	}
	if a.digits {
		return true
	}
	if a.whole {
		c.require(a.lead, wantWord, a.at, refusal)
		return true
	}
	c.refuse(a.at, refusal.Rule, base, refusal.Reason, refusal.Hint)
	return false
}

// found is the word with the path of a file in the place of {}. No path that
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
