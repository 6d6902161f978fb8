package obeyed

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// executed returns the part of a file that is executed, or that selects what is; in doubt, all of it.
func executed(name string, text []byte) string {
	switch name {
	case "package.json":
		return string(Executed(text))
	case ".gitattributes":
		var lines []string
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "[attr]") || strings.Contains(line, "filter") || strings.Contains(line, "diff=") || strings.Contains(line, "merge=") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	case ".python-version", ".python-versions":
		if !strings.ContainsAny(string(text), `/\`) { // versions alone
			return ""
		}
	case "tsconfig.json", "jsconfig.json":
		if isPlainConfig(text) {
			return ""
		}
	case "analysis_options.yaml":
		if !mayMention(text, "include", "plugins", "!") { // a tag may encode a key
			return ""
		}
	}
	return string(text)
}

// mayMention reports whether a text has one of these words, or may have one in another encoding or by
// escapes.
func mayMention(text []byte, words ...string) bool {
	lower := bytes.ToLower(text)
	return !utf8.Valid(text) || bytes.ContainsAny(text, "\\\x00\u2028\u2029") ||
		slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(lower, []byte(word)) })
}

var (
	stringOrComment = regexp.MustCompile(`"[^"]*"|//[^\n\r]*|(?s:/\*.*?\*/)`)
	trailingComma   = regexp.MustCompile(`,(\s*[}\]])`)
)

// plainKeys are the keys of a tsconfig.json that load nothing but, in compilerOptions, plugins. Many
// programs have a key of their own.
var plainKeys = map[string]bool{"$schema": true, "display": true, "docs": true, "compilerOptions": true, "include": true, "exclude": true, "files": true, "compileOnSave": true, "typeAcquisition": true, "watchOptions": true}

// isPlainConfig reports whether a tsconfig.json, which may have comments, loads no code, and no other
// configuration. Words are looked for in all of it, since of two equal keys a program may take either.
func isPlainConfig(text []byte) bool {
	if mayMention(text, "plugins", "extends", "references") {
		return false
	}
	text = stringOrComment.ReplaceAllFunc(text, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte(" ")
	})
	var all map[string]json.RawMessage
	if json.Unmarshal(trailingComma.ReplaceAll(text, []byte("$1")), &all) != nil {
		return false
	}
	for key := range all {
		if !plainKeys[key] {
			return false
		}
	}
	return true
}
