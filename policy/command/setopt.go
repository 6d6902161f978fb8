package command

import "strings"

// The options of the shell that change neither what a text means nor what is
// run.
var (
	setLetters = "abCefhmnuvxET"
	setNames   = map[string]bool{
		"allexport": true, "errexit": true, "errtrace": true, "functrace": true, "hashall": true, "monitor": true,
		"noclobber": true, "noexec": true, "noglob": true, "notify": true, "nounset": true, "pipefail": true,
		"verbose": true, "xtrace": true,
	}
	shoptHarmless = map[string]bool{
		"nullglob": true, "globstar": true, "dotglob": true, "nocaseglob": true, "nocasematch": true, "failglob": true,
		"inherit_errexit": true, "lastpipe": true, "globasciiranges": true,
	}
)

// setOptions lets through the options of set that surprise nobody. What
// follows them are the positional parameters.
func setOptions(c *checker, args []arg) {
	for rest := args[1:]; len(rest) > 0; {
		a := rest[0]
		if !a.constant {
			c.noOption(a, "set")
			return
		}
		if a.text == "--" || a.text == "-" || len(a.text) < 2 || a.text[0] != '-' && a.text[0] != '+' {
			return
		}
		rest = rest[1:]
		letters := strings.TrimSuffix(a.text[1:], "o")
		if bad := strings.Trim(letters, setLetters); bad != "" {
			c.refuseOption(a, "set", a.text[:1]+bad[:1])
			return
		}
		if letters == a.text[1:] {
			continue
		}
		if len(rest) == 0 {
			return // prints them all
		}
		if !rest[0].constant || !setNames[rest[0].text] {
			c.refuseOption(rest[0], "set", a.text[:1]+"o "+rest[0].text)
			return
		}
		rest = rest[1:]
	}
}

func (c *checker) refuseOption(a arg, command, option string) {
	c.refuse(a.at, RuleBuiltin, command, command+" "+option+" changes what texts mean", "")
}

// shoptNames lets through the harmless options of shopt.
func shoptNames(c *checker, args []arg) {
	values, names, ok := c.flags(args, "pqsuo", "")
	if !ok {
		return
	}
	for _, a := range names {
		known := shoptHarmless[a.text]
		if _, set := values['o']; set {
			known = setNames[a.text]
		}
		if !a.constant || !known {
			c.refuseOption(a, "shopt", a.text)
			return
		}
	}
}
