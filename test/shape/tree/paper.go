package tree

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// marks are the lines around the list of a walk in ARCHITECTURE.md.
func marks(w Walk) (begin, end string) {
	return "<!-- walk " + w.Name + " -->\n", "<!-- end of walk " + w.Name + " -->\n"
}

// rootName stands for the root package in lists.
const rootName = "paddock"

var listLine = regexp.MustCompile("(?m)^\\* `([^`]+)`: (.*)$")

// cut returns what stands before, in and behind the list of a walk.
func cut(paper string, w Walk) (before, list, after string, err error) {
	begin, end := marks(w)
	before, rest, ok := strings.Cut(paper, begin)
	list, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return "", "", "", fmt.Errorf("there is no list between %q and %q", begin, end)
	}
	return before, list, after, nil
}

// Listed returns the files that a paper lists for a walk.
func Listed(paper string, w Walk) ([]string, error) {
	_, list, _, err := cut(paper, w)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, line := range listLine.FindAllStringSubmatch(list, -1) {
		dir := line[1]
		if dir == rootName {
			dir = "."
		}
		for name := range strings.SplitSeq(line[2], ", ") {
			files = append(files, path.Join(dir, strings.Trim(name, "`")))
		}
	}
	return files, nil
}

// Write returns a paper with the list of a walk in place of the one that it has:
// packages in the order in which the walk first comes to them, and so their files.
func Write(paper string, w Walk, files []string) (string, error) {
	before, _, after, err := cut(paper, w)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	begin, end := marks(w)
	fmt.Fprintf(&b, "%s%s (%d files):\n\n", begin, w.Title, len(files))
	var dirs []string
	for _, file := range files {
		if dir := path.Dir(file); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		var names []string
		for _, file := range files {
			if path.Dir(file) == dir {
				names = append(names, "`"+path.Base(file)+"`")
			}
		}
		if dir == "." {
			dir = rootName
		}
		fmt.Fprintf(&b, "* `%s`: %s\n", dir, strings.Join(names, ", "))
	}
	b.WriteString(end)
	return before + b.String() + after, nil
}
