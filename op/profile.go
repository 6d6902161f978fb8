package op

import "strings"

// Profile is a set of tools for models: one that has fewer of them chooses better.
// Of an operation it says in which of the smaller sets it is, by bits.
type Profile uint8

// The profiles.
const (
	ProfileFull      Profile = 0 // all that the principal may use
	ProfileWorkspace Profile = 1 // work in one workspace: commands, files, services, shells that stay
	ProfileRun       Profile = 2 // one-shot commands alone, each in a sandbox of its own
)

// Profiles are all of them, the smallest first.
func Profiles() []Profile { return []Profile{ProfileRun, ProfileWorkspace, ProfileFull} }

// Offers says whether an operation of these profiles is in p.
func (p Profile) Offers(of Profile) bool { return p == ProfileFull || of&p != 0 }

// String names the profile; of several, all.
func (p Profile) String() string {
	var names []string
	if p&ProfileRun != 0 {
		names = append(names, "run")
	}
	if p&ProfileWorkspace != 0 {
		names = append(names, "workspace")
	}
	if len(names) == 0 {
		return "full"
	}
	return strings.Join(names, ", ")
}
