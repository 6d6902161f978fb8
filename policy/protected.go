package policy

// Protected is a path in a workspace that programs on the host execute or
// obey without being told to, and why it is one.
type Protected struct {
	Path string
	Dir  bool
	Why  string
}

// Protections lists what of a project in the [Inventory] is read-only.
func Protections() []Protected {
	var all []Protected
	for _, o := range inventory {
		if o.ReadOnly() && o.Under != Home && o.Name() != ".git" && o.Name() != ".git/commondir" {
			all = append(all, Protected{o.Name(), o.Dir, o.Why})
		}
	}
	return all
}

// Planting is what is never read-only, and obeyed where it was made.
type Planting struct {
	Path string
	With []string
	Why  string
}

// Plantings lists what of the [Inventory] is one.
func Plantings() []Planting {
	var all []Planting
	for _, o := range inventory {
		if o.With != nil {
			all = append(all, Planting{o.Path, o.With, o.Why})
		}
	}
	return all
}
