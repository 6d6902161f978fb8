package command

// Steers says whether a variable decides what other commands are or do: what a
// text cannot assign, and what nobody else should set for one. The table is of
// what is known to, and therefore not complete.
func Steers(name string) bool { return steers(name) }
