// Package gitconfig reads files of git's configuration that commands of a sandbox
// could have written, compares a sandbox's copy with the host's file ([Compare]),
// keeps what was added ([Keep]) and writes what the user accepts into the host's
// file ([Accept]). It runs no git: what is not in the plain form that git itself
// writes is an error.
package gitconfig
