// Package cli is the command line that paddock and paddock-server share. It is one door
// to package op: its commands, flags and JSON output are renderings of the table of
// operations, so there is nothing to find here but how a terminal speaks. What it
// writes follows these rules:
//
//   - Standard output holds what was asked for and nothing else: the output of
//     a command, a report, or with --json one object on one line.
//   - Errors go to standard error, one line each: "paddock: cannot …: …", and
//     where there is something to do about it "paddock: hint: …".
//   - The exit status is the command's own; 124 it timed out, 125 Paddock could
//     not do it, 126 the command cannot be executed, 127 it does not exist,
//     128+N signal N ended it. A standard output that nobody reads any more is
//     128+13, in silence.
//
// A start must be fast: flags are built for the command at hand alone, and nothing is
// done before main. What a program links beyond that, its main passes in a [Program].
package cli
