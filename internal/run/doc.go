// Package run holds what the library needs and its users do not read: a
// started command and the watchdog over it, the hints that a failed command's
// output suggests, and the default backend and its directory of state, which
// Linux alone has.
package run
