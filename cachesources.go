package paddock

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/backend/hostpath/toolchain"
	"github.com/paddock-dev/paddock/policy"
)

// sources returns what a tool in a sandbox without a network may read of the caller's own
// caches, which it could not download: read-only mounts and variables. With a network tools
// download into their cache once.
//
// Only downloads of registries are shown, which lock files of projects verify: nothing that
// was built, no configuration, no credentials, and nothing of version control systems. What
// sandboxes or other users could have written is not shown. there says whether the tool's
// cache, in dir, exists.
func (k *stays) sources(req *backend.Request, spec Spec, tool, dir string, there bool) (mounts []Mount, vars map[string]string) {
	if spec.Network.Mode != policy.NetworkNone || req.Home == "" {
		return nil, nil
	}
	switch tool {
	case cache.Go:
		from := source(req, filepath.Join(toolchain.ModCache(req.Home, os.Getenv), "cache", "download"))
		if from == "" || strings.ContainsAny(from, ",|") || unmounted(spec, from) != nil { // which separate proxies
			return nil, nil
		}
		proxy := (&url.URL{Scheme: "file", Path: from}).String() + ",off"
		return []Mount{{Source: from, Target: from, Mode: "ro"}}, map[string]string{"GOPROXY": proxy}
	case cache.Cargo:
		// The landlock level shows everything where it is on the host.
		if spec.Level == policy.LevelLandlock || spec.Allows(policy.DegradeNamespaces) || !there {
			return nil, nil
		}
		// Cargo unpacks the packages into its own cache, and needs an index beside them.
		registry := filepath.Join(cmp.Or(os.Getenv("CARGO_HOME"), filepath.Join(req.Home, ".cargo")), "registry")
		names := []string{"index", "cache"}
		for _, name := range names {
			from := source(req, filepath.Join(registry, name))
			if from == "" {
				return nil, nil
			}
			mounts = append(mounts, Mount{Source: from, Target: filepath.Join(dir, "registry", name), Mode: "ro"})
		}
		if k.making && k.store.MountPoints(dir, "registry", names...) != nil {
			return nil, nil
		}
	}
	return mounts, nil
}

// source returns the path of a directory of the caller's own caches without links, or "" if
// it must not be shown: it lies outside of the caller's home, or commands of a sandbox or
// other users could have put it there, or have changed anything in it.
func source(req *backend.Request, dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	judged := *req
	if judged.Spec.Home == policy.HomeKeep { // it lies in the store
		judged.Spec.Home = ""
	}
	judged.Seen = seenOf(req).Apart()
	at, err := hostpath.ToolDir(judged, hostpath.Real(req.Home), dir)
	if err != nil || mappable(at) != nil {
		return ""
	}
	return at
}
