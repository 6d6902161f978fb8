package layer

import "context"

func (c *commit) stranded(ctx context.Context, landing, left []*Change) (map[*Change]string, error) {
	return nil, nil
}
