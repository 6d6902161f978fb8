// Package command judges command texts and argument lists by a list of the
// programs that they may start.
//
//	rules, err := command.New(policy.DefaultCommands())
//	…
//	verdict := rules.Shell("ls; curl example.com")
//	if !verdict.Allowed { … verdict.Reason, verdict.Position … }
//	run("bash", "-c", verdict.Script) // what was judged, and nothing else
//
// A text is parsed with the grammar of the shell that will run it. Every
// simple command in it is judged: in lists, pipelines, substitutions,
// functions, here-documents, conditions, and in the texts and commands that
// wrappers such as env, xargs and find -exec hand on. What cannot be judged is
// refused: names that only exist at run time, eval and its kind, assignments
// of variables that change what later commands do, arithmetic on unknown text.
//
// The list is a guard-rail for those who mean well. An allowed interpreter
// runs what it likes, a configuration file names programs, and only the wall
// of the sandbox holds against them. awk and sed are interpreters: awk has
// system and pipes, sed the command e. So is everything that builds: go, cargo,
// make and compilers run what a Makefile, a build script, a plugin or a
// directive in a source says. A note in the verdict says so. What can be
// promised: no program that the shell itself starts for an allowed text is
// one that the list denies, as long as the environment and the files of the
// programs are not made to start others.
//
// [Rules] are immutable and may be used by several goroutines. A check is a
// function of text alone: it reads no file and takes time in proportion to
// the text, which may have [MaxText] bytes.
//
// [Paths] is apart from the list: it refuses, early and readably, arguments
// that plainly point outside the sandbox. [RulesFile] follows a file.
package command
