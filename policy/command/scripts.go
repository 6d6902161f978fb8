package command

import "strings"

// wordReader tells the words that are patterns, scripts and messages from
// those that may be paths, by the command they belong to.
type wordReader struct {
	given bool // an option held the script, so that no word is it
	seen  bool // the script was seen
	skip  bool // the word is the value of an option that names no file
	after bool // behind --
}

// textCommands take no paths.
var textCommands = map[string]bool{
	"echo": true, "printf": true, "tr": true, "expr": true, "basename": true, "dirname": true, "seq": true, "sleep": true,
	"true": true, "false": true, "which": true, "yes": true,
}

// scriptFirst take a script or a pattern as their first word, unless one of
// these options holds it.
var scriptFirst = map[string]string{
	"grep": "-e -f --regexp --file", "sed": "-e -f --expression --file", "awk": "-f -e --file --source",
	"rg": "-e -f --regexp --file", "jq": "-f --from-file",
}

// textOptions are the options whose value is no path.
var textOptions = map[string]string{
	"grep": "-e --regexp -m -A -B -C --include --exclude --exclude-dir", "sed": "-e --expression -l", "awk": "-F -v -e --source",
	"find": "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -printf -perm -type -size -user -group",
	"cut":  "-d -f -c -b --delimiter --output-delimiter", "sort": "-t -k --field-separator", "paste": "-d --delimiters",
	"xargs": "-d -I -E --delimiter", "git": "-m --message --author --grep -S -G --format --pretty", "python": "-c -m", "node": "-e -p --eval --print",
	"sh": "-c", "bash": "-c", "perl": "-e -E", "ruby": "-e", "php": "-r", "rg": "-e -g --regexp --glob", "head": "-n -c", "tail": "-n -c",
	"wc": "", "diff": "-I -x --label", "date": "-d -s", "column": "-s -o", "su": "-c", "script": "-c",
}

// isPath says whether the word may be a path. It is asked for each word of a
// command, in order.
func (s *wordReader) isPath(word pathWord) bool {
	kind := kindOf(word.command)
	if word.first {
		*s = wordReader{}
	}
	if s.skip {
		s.skip = false
		return false
	}
	text := word.text
	if !s.after && strings.HasPrefix(text, "-") && len(text) > 1 {
		return s.option(kind, text)
	}
	if _, script := scriptFirst[kind]; script && !s.given && !s.seen {
		s.seen = true
		return false
	}
	return !textCommands[kind]
}

// option says whether an option may hold a path in itself.
func (s *wordReader) option(kind, text string) bool {
	if text == "--" {
		s.after = true
		return false
	}
	name, _, attached := strings.Cut(text, "=")
	if !attached && len(text) > 2 && text[1] != '-' && (kind != "find" && kind != "node") {
		name = text[:2]
	}
	holdsScript := hasWord(scriptFirst[kind], name) || text[1] != '-' && strings.HasSuffix(text, "e") && hasWord(scriptFirst[kind], "-e")
	s.given = s.given || holdsScript
	if hasWord(textOptions[kind], name) {
		s.skip = name == text
		return false
	}
	if holdsScript && strings.HasSuffix(text, "e") && text[1] != '-' {
		s.skip = true
	}
	return true
}
