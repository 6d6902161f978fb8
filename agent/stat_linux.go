package agent

import "github.com/paddock-dev/paddock/wire"

func (w *workspace) stat(q *wire.StatRequest) (*wire.StatResult, error) {
	p, err := w.find(q.Path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	st, err := p.lstat()
	if err != nil {
		return nil, err
	}
	e, err := describe(p.dir, p.name, wire.Path(p.path.text), st)
	if err != nil {
		return nil, fileError("look at", p.path, err)
	}
	return &wire.StatResult{Entry: e, Mode: st.Mode & permissions, UID: st.Uid, GID: st.Gid,
		Links: uint64(st.Nlink), ModifiedAt: timestamp(st.Mtim)}, nil //nolint:unconvert // the type differs between architectures
}
