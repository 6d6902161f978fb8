package policy

// Ceiling is the most that a spec may ask for.
type Ceiling struct{ Refuse error }

// Apply refuses a spec that asks for more.
func (c *Ceiling) Apply(s Spec) (Spec, error) {
	if c == nil {
		return s, nil
	}
	return s, c.Refuse
}
