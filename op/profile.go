package op

// Profile is a set of tools for models: one that has fewer of them chooses better.
type Profile uint8

// The profiles, each of which contains those after it.
const (
	ProfileFull      Profile = iota // all that the principal may use
	ProfileWorkspace                // work in one workspace: commands, files, services, shells that stay
	ProfileRun                      // one-shot commands alone
)

// Profiles are the names of the profiles.
var profileNames = [...]string{"full", "workspace", "run"}

func (p Profile) String() string { return profileNames[p] }
