package layer

import (
	"encoding/binary"
	"testing"
	"unicode/utf16"
)

// Files of version control systems, and configuration that is a program, are at these levels.
func TestScreenInventory(t *testing.T) {
	const pass = Level(0)
	for _, c := range []struct {
		name, path string
		old, now   string // "": nothing is there
		want       Level
	}{
		{"Mercurial's configuration", ".hg/hgrc", "[paths]", "[hooks]", Hold},
		{"Mercurial's configuration, new", ".hg/hgrc", "", "[extensions]", Hold},
		{"Mercurial's configuration, removed", ".hg/hgrc", "[paths]", "", Hold},
		{"Mercurial's configuration where tools fill", "node_modules/x/.hg/hgrc", "", "[hooks]", Hold},
		{"Mercurial's configuration of other case", "sub/.HG/hgrc", "", "[hooks]", Hold},
		{"where Mercurial's repository is", "deep/er/.hg/sharedpath", "", "../../evil/.hg", Hold},
		{"what a repository of Mercurial requires", ".hg/requires", "revlogv1", "revlogv1\nshared", Hold},
		{"repositories in one of Mercurial", ".hgsub", "", "sub = ../evil", Hold},
		{"Mercurial's history", ".hg/store/data/x.i", "a", "b", pass},
		{"Mercurial's working copy", ".hg/dirstate", "a", "b", pass},
		{"Sapling's configuration", ".sl/config", "", "[hooks]", Hold},
		{"Sapling's configuration beside git's", ".git/sl/config", "", "[hooks]", Hold},
		{"Sapling's working copy", ".sl/dirstate", "a", "b", pass},
		{"jj's configuration", ".jj/repo/config.toml", "", "[fix]", Hold},
		{"jj's configuration of a workspace", "sub/.jj/workspace-config.toml", "", "[fix]", Hold},
		{"which configuration jj takes", ".jj/repo/config-id", "0a", "0b", Hold},
		{"where jj's repository is", ".jj/repo", "../../own/.jj/repo", "../../evil/.jj/repo", Hold},
		{"where the repository of git is", ".jj/repo/store/git_target", "git", "../../../evil", Hold},
		{"jj's operations", ".jj/repo/op_store/operations/x", "", "x", pass},
		{"jj's working copy", ".jj/working_copy/checkout", "a", "b", pass},
		{"Breezy's configuration", ".bzr/branch/branch.conf", "", "post_commit = evil", Hold},
		{"Pijul's configuration", ".pijul/config", "", "[hooks]", Hold},
		{"Darcs's configuration", "_darcs/prefs/defaults", "", "ALL posthook evil", Hold},
		{"tailwind", "tailwind.config.cts", "a", "b", Mark},
		{"postcss", "web/postcss.config.mjs", "", "b", Mark},
		{"next", "next.config.mts", "a", "b", Mark},
		{"mocha", ".mocharc.json", "{}", `{"require":"./x"}`, Mark},
		{"gulp", "gulpfile.mjs", "a", "b", Mark},
		{"a story", ".storybook/main.ts", "a", "b", Mark},
		{"a linter's configuration of another ending", ".stylelintrc.ts", "", "evil()", Hold},
		{"a linter that editors start", ".oxlintrc.json", "{}", `{"jsPlugins":["./x"]}`, Hold},
		{"a tool of a package", "node_modules/x/next.config.js", "", "b", pass},
		{"another manifest", "package.yaml", "", "scripts: {}", Hold},
	} {
		t.Run(c.name, func(t *testing.T) { screenOne(t, c.path, c.old, c.now, c.want) })
	}
}

// Of a package.json, what chooses or loads code is held back, and what only describes it is not.
func TestScreenPackage(t *testing.T) {
	for _, c := range []struct {
		name, old, now string
		want           Level
	}{
		{"a version of node", `{"volta":{"node":"20"}}`, `{"volta":{"extends":"./evil.json"}}`, Hold},
		{"names of modules", `{}`, `{"imports":{"#x":"./evil.js"}}`, Hold},
		{"what others import", `{"exports":"./a.js"}`, `{"exports":"./evil.js"}`, Hold},
		{"a linter's plugins", `{}`, `{"stylelint":{"plugins":["./evil.js"]}}`, Hold},
		{"a test runner's modules", `{"mocha":{}}`, `{"mocha":{"require":"./evil.js"}}`, Hold},
		{"a command", `{}`, `{"wireit":{"test":{"command":"evil"}}}`, Hold},
		{"a tool's key that nobody knows", `{}`, `{"tool":{"load":"./evil.js"}}`, Hold},
		{"a directory", `{"dependencies":{"a":"1"}}`, `{"dependencies":{"a":"file:./evil"}}`, Hold},
		{"a directory without a word", `{}`, `{"devDependencies":{"a":"../evil"}}`, Hold},
		{"a link", `{}`, `{"dependencies":{"a":"link:./evil"}}`, Hold},
		{"a portal", `{}`, `{"optionalDependencies":{"a":"portal:./evil"}}`, Hold},
		{"a repository", `{}`, `{"dependencies":{"a":"git+ssh://git@example.com/evil.git"}}`, Hold},
		{"a repository by its short name", `{}`, `{"dependencies":{"a":"owner/evil"}}`, Hold},
		{"an address", `{}`, `{"peerDependencies":{"a":"https://example.com/evil.tgz"}}`, Hold},
		{"an archive", `{}`, `{"dependencies":{"a":"evil.TGZ"}}`, Hold},
		{"a path of the workspace", `{}`, `{"dependencies":{"a":"workspace:../evil"}}`, Hold},
		{"what is no map", `{}`, `{"dependencies":["./evil"]}`, Hold},
		{"a package of the workspace", `{}`, `{"dependencies":{"a":"workspace:*","b":"workspace:^1.2"}}`, Mark},
		{"versions", `{"dependencies":{"a":"1"}}`, `{"dependencies":{"a":"^2 || >=3.1 <4","b":"latest","c":"npm:@x/c@1","d":"catalog:","e":"*"}}`, Mark},
		{"versions beside a directory", `{"dependencies":{"a":"file:./x","b":"1"}}`, `{"dependencies":{"b":"2","a":"file:./x"}}`, Mark},
		{"a description", `{"name":"x","exports":"./a.js"}`, `{"exports":"./a.js","name":"y","version":"2","keywords":["x"],"engines":{"node":">=20"},"types":"x.d.ts","files":["dist"]}`, Mark},
	} {
		t.Run(c.name, func(t *testing.T) { screenOne(t, "package.json", c.old, c.now, c.want) })
	}
}

// Of the configuration of compilers, what loads no code lands; in doubt it is held back.
func TestScreenCompilers(t *testing.T) {
	encoded := func(order binary.AppendByteOrder, text string) string {
		b := order.AppendUint16(nil, 0xfeff)
		for _, unit := range utf16.Encode([]rune(text)) {
			b = order.AppendUint16(b, unit)
		}
		return string(b)
	}
	const ts, dart = "tsconfig.json", "sub/analysis_options.yaml"
	for _, c := range []struct {
		name, path, old, now string
		want                 Level
	}{
		{"other files", ts, `{"include":["src"]}`, `{"include":["src","lib//x"],"exclude":["d,]"]}`, Mark},
		{"comments", ts, "{}", "{\n// \"a\"\n\"compilerOptions\": { /* \"b */ \"strict\": true, // c\n},\n}\n", Mark},
		{"a new one", "web/jsconfig.json", "", `{"compilerOptions":{"checkJs":true}}`, Mark},
		{"other files beside an extension", ts, `{"extends":"./base.json","include":["src"]}`, "{\n \"extends\": \"./base.json\", // the same\n \"include\": [\"lib\"],\n}", Mark},
		{"another extension", ts, `{"extends":"./base.json"}`, `{"extends":"./evil.json"}`, Hold},
		{"an extension that is given twice", ts, `{"extends":"./base.json"}`, `{"extends":"./base.json","EXTENDS":"./evil.json"}`, Hold},
		{"a plugin more", ts, `{"compilerOptions":{"plugins":[]}}`, `{"compilerOptions":{"plugins":[{"name":"evil"}]}}`, Hold},
		{"options in another case", ts, `{}`, `{"CompilerOptions":{"Plugins":[{"name":"evil"}]}}`, Hold},
		{"a file that the compiler writes", ts, `{}`, `{"compilerOptions":{"outDir":"../.ssh"}}`, Hold},
		{"a directory that the compiler writes", ts, `{}`, `{"compilerOptions":{"outDir":"dist"}}`, Mark},
		{"a directory of settings that the compiler writes", ts, `{}`, `{"compilerOptions":{"outDir":"./.vscode"}}`, Hold},
		{"a macro of git's attributes", ".gitattributes", "[attr]enc filter=crypt\n", "[attr]enc filter=crypt\n* enc\n", Hold},
		{"a reference", ts, `{"files":[]}`, `{"files":[],"references":[{"path":"./evil.json"}]}`, Hold},
		{"an escape", ts, `{}`, `{"compilerOptions":{"pl\u0075gins":[{"name":"evil"}]}}`, Hold},
		{"other case", ts, `{}`, `{"Extends":"./evil.json"}`, Hold},
		{"a key without quotes", ts, `{}`, `{glint:{environment:"./evil.js"}}`, Hold},
		{"a key of another program", ts, `{}`, `{"glint":{"environment":"./evil.js"}}`, Hold},
		{"a module for a runner", ts, `{}`, `{"ts-node":{"require":["./evil.js"]}}`, Hold},
		{"two equal keys", ts, `{}`, `{"compilerOptions":{"plugins":[{"name":"evil"}]},"compilerOptions":{}}`, Hold},
		{"a comment that ends with a line", ts, `{}`, "{// x\r\"glint\":{}\n}", Hold},
		{"a comment that ends with a line of Unicode", ts, `{}`, "{// x\u2028\"glint\":{}\n}", Hold},
		{"a comment that has no end", ts, `{}`, `{}/*`, Hold},
		{"another encoding", ts, `{}`, encoded(binary.LittleEndian, `{"extends":"./evil.json"}`), Hold},
		{"another encoding, the other way round", ts, `{}`, encoded(binary.BigEndian, `{"extends":"./evil.json"}`), Hold},

		{"rules", dart, "linter:\n  rules: [a]\n", "linter:\n  rules:\n    a: true\nanalyzer:\n  exclude: [\"**/*.g.dart\"]\n", Mark},
		{"another file", dart, "", "include: ../evil.yaml\n", Hold},
		{"a key in quotes", dart, "linter:\n", "\"include\": ../evil.yaml\n", Hold},
		{"a key in single quotes", dart, "linter:\n", "'include' : ../evil.yaml\n", Hold},
		{"a key of its own line", dart, "linter:\n", "? include\n: ../evil.yaml\n", Hold},
		{"a key that is an alias", dart, "linter:\n", "x: &a include\n*a : ../evil.yaml\n", Hold},
		{"a key with an escape", dart, "linter:\n", `"\x69nclude": ../evil.yaml`, Hold},
		{"a key that a tag encodes", dart, "linter:\n", "!!binary aW5jbHVkZQ==: ../evil.yaml\n", Hold},
		{"plugins", dart, "linter:\n", "{analyzer: {plugins : [evil]}}\n", Hold},
		{"another encoding of it", dart, "linter:\n", encoded(binary.LittleEndian, "include: ../evil.yaml\n"), Hold},
		{"rules beside another file", dart, "include: a\n", "include: a\nlinter:\n", Hold},
	} {
		t.Run(c.name, func(t *testing.T) { screenOne(t, c.path, c.old, c.now, c.want) })
	}
}

// screenOne screens one change of a file.
func screenOne(t *testing.T, path, old, now string, want Level) {
	t.Helper()
	kind, files := Modified, map[string]string{".git/objects/": ""}
	if old != "" {
		files[path] = old
	}
	l := newLab(t, files)
	switch {
	case now == "":
		kind = Deleted
	case old == "":
		kind = Added
	}
	l.does(kind, path, now)
	found, err := l.layer.Screen(t.Context(), l.changes, ScreenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := levels(found)[path]; got != want {
		t.Errorf("%q is at level %d, want %d: %+v", path, got, want, found)
	}
}
