package obeyed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/internal/strictjson"
)

// executed returns the part of a file that is executed, or that selects what is; in doubt, all of it.
func executed(name string, text []byte) string {
	switch name {
	case "package.json":
		return string(executedPackage(text))
	case ".gitattributes":
		if strings.Contains(string(text), "[attr]") { // other lines may use it
			return string(text)
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.Contains(line, "filter") || strings.Contains(line, "diff=") || strings.Contains(line, "merge=") {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	case ".python-version", ".python-versions":
		if !strings.ContainsAny(string(text), `/\`) { // versions alone
			return ""
		}
	case "tsconfig.json", "jsconfig.json":
		return string(executedConfig(text))
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
	stringOrComment = lazyregexp.New(`"[^"]*"|//[^\n\r]*|(?s:/\*.*?\*/)`)
	trailingComma   = lazyregexp.New(`,(\s*[}\]])`)
)

// plainKeys are the keys of a tsconfig.json that load nothing but, in compilerOptions, plugins; in lower
// case, as tsc compares them. Many programs have a key of their own.
var plainKeys = map[string]bool{"$schema": true, "display": true, "docs": true, "include": true, "exclude": true, "files": true, "compileonsave": true, "typeacquisition": true, "watchoptions": true}

// executedConfig returns the part of a tsconfig.json, which may have comments, that loads code or other
// configuration, or has the compiler write elsewhere; all of it if that part cannot be found.
func executedConfig(text []byte) []byte {
	plain := stringOrComment().ReplaceAllFunc(text, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return []byte(" ")
	})
	all, ok := keysOf(trailingComma().ReplaceAll(plain, []byte("$1")))
	options, known := map[string]json.RawMessage{}, true
	if value, there := all["compileroptions"]; there {
		options, known = keysOf(value)
	}
	if !ok || !known || mayMention(text) {
		return text
	}
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if value := all[key]; !plainKeys[key] && key != "compileroptions" {
			fmt.Fprintf(&b, "%q=%s\n", key, value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := string(options[key])
		// Names with a dot in front are those of settings, and ".." leads out.
		elsewhere := strings.HasPrefix(value, `"/`) || slices.ContainsFunc(strings.Split(strings.Trim(value, `"`), "/"), func(name string) bool {
			return len(name) > 1 && name[0] == '.' || name == "node_modules"
		})
		if key == "plugins" || key == "outfile" || elsewhere && (key == "outdir" || key == "declarationdir" || key == "tsbuildinfofile") {
			fmt.Fprintf(&b, "%s=%s\n", key, value)
		}
	}
	return b.Bytes()
}

// keysOf returns the values of an object by their keys in lower case, and false if it is none or has a
// key twice, of which a program may take either.
func keysOf(text []byte) (map[string]json.RawMessage, bool) {
	all := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(text))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		var value json.RawMessage
		key, err := d.Token()
		name, is := key.(string)
		name = strings.ToLower(name)
		if _, twice := all[name]; err != nil || !is || twice || d.Decode(&value) != nil {
			return nil, false
		}
		all[name] = value
	}
	_, err := d.Token()
	return all, err == nil && !d.More()
}

// executedPackage returns the part of a package.json that is executed, or all of it if that part
// cannot be found. It leaves out what is known to be harmless, since every tool has a key of
// its own; of what a package depends on, it keeps what does not come from a registry. A key that
// is there twice, or in two cases, leaves nothing out: programs differ in which they take.
func executedPackage(text []byte) []byte {
	// A map, since keys that differ only in case are different keys to npm.
	var all map[string]json.RawMessage
	if strictjson.Unmarshal(text, &all, strictjson.Options{Foreign: true}) != nil {
		return text
	}
	var b bytes.Buffer
	line := func(value json.RawMessage, names ...string) {
		fmt.Fprintf(&b, "%q=", names)
		_ = json.Compact(&b, value) // it was parsed
		b.WriteByte('\n')
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		var packages map[string]json.RawMessage
		switch {
		case harmlessKeys[key]:
		case !dependencies[key], json.Unmarshal(value, &packages) != nil:
			line(value, key)
		default:
			for _, name := range slices.Sorted(maps.Keys(packages)) {
				var from string
				if json.Unmarshal(packages[name], &from) != nil || !fromRegistry(from) {
					line(packages[name], key, name)
				}
			}
		}
	}
	return b.Bytes()
}

// harmlessKeys are the keys of a package.json that describe it, and select nothing that runs.
var harmlessKeys = map[string]bool{
	"$schema": true, "name": true, "version": true, "description": true, "keywords": true, "homepage": true, "bugs": true, "license": true, "licenses": true, "author": true, "contributors": true,
	"maintainers": true, "funding": true, "repository": true, "private": true, "readme": true, "displayName": true, "publisher": true, "icon": true, "categories": true, "contributes": true, "activationEvents": true,
	"engines": true, "os": true, "cpu": true, "libc": true, "files": true, "man": true, "types": true, "typings": true, "typesVersions": true, "sideEffects": true, "browserslist": true, "peerDependenciesMeta": true,
	"bundleDependencies": true, "bundledDependencies": true,
}

// dependencies are the keys of a package.json that map names of packages to where they come from.
var dependencies = map[string]bool{"dependencies": true, "devDependencies": true, "optionalDependencies": true, "peerDependencies": true}

// fromRegistry reports whether a dependency is one of a registry, by a version or an alias, or a
// package of the same workspace by its name.
func fromRegistry(from string) bool {
	from = strings.ToLower(strings.TrimSpace(from))
	for _, prefix := range []string{"npm:", "jsr:", "catalog:"} {
		if strings.HasPrefix(from, prefix) {
			return true
		}
	}
	from = strings.TrimPrefix(from, "workspace:")
	archive := strings.HasSuffix(from, ".tgz") || strings.HasSuffix(from, ".tar.gz") || strings.HasSuffix(from, ".tar")
	return !archive && !strings.HasPrefix(from, ".") && !strings.ContainsAny(from, `:/\`)
}
