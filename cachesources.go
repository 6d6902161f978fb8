package paddock

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/backend/hostpath/toolchain"
	"github.com/paddock-dev/paddock/policy"
)

// The directory of npm's cache with everything that was downloaded, and what is shown of it: the
// files that are named by the hash of their content. Its index is not, because npm writes request
// headers into it, Authorization among them, if a registry's answers depend on these.
const (
	npmDownloads = "_cacache"
	npmContent   = "content-v2"
)

// download is a mount of what the caller has downloaded.
type download struct {
	Mount
	// merged: it is mounted below a part of the tool's cache, without these names.
	merged bool
	hidden []string
}

// sources returns what a tool in a sandbox without a network may read of the caller's own
// caches, which it could not download: mounts and variables. With a network tools download
// into their cache once.
//
// Only downloaded packages are shown, which lock files of projects verify: nothing that was
// built, no configuration, no credentials, and no clones of repositories. What sandboxes or
// other users could have written is not shown. there says whether the tool's cache, in dir,
// exists.
func (k *stays) sources(req *backend.Request, spec Spec, tool, dir string, there bool) (shown []download, vars map[string]string) {
	if spec.Network.Mode != policy.NetworkNone || req.Home == "" {
		return nil, nil
	}
	// The landlock level shows everything where it is on the host.
	moved := there && spec.Level != policy.LevelLandlock && !spec.Allows(policy.DegradeNamespaces)
	switch tool {
	case cache.Go:
		from := source(req, filepath.Join(toolchain.ModCache(req.Home, os.Getenv), "cache", "download"))
		if from == "" || strings.ContainsAny(from, ",|") || unmounted(spec, from) != nil { // which separate proxies
			return nil, nil
		}
		proxy := (&url.URL{Scheme: "file", Path: from}).String() + ",off"
		return []download{{Mount: Mount{Source: from, Target: from, Mode: "ro"}}}, map[string]string{"GOPROXY": proxy}
	case cache.Cargo:
		if !moved {
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
			shown = append(shown, download{Mount: Mount{Source: from, Target: filepath.Join(dir, "registry", name), Mode: "ro"}})
		}
		if k.making && k.store.MountPoints(dir, "registry", names...) != nil {
			return nil, nil
		}
	case cache.NPM:
		if !moved {
			return nil, nil
		}
		npm := cmp.Or(os.Getenv("npm_config_cache"), os.Getenv("NPM_CONFIG_CACHE"), filepath.Join(req.Home, ".npm"))
		from := source(req, filepath.Join(npm, npmDownloads))
		if from == "" {
			return nil, nil
		}
		hidden := npmHidden(from)
		// A merged mount would lay bare what the host's mounts cover.
		if hidden == nil || len(hostpath.MountedBelow(from)) > 0 || k.making && k.store.MountPoints(dir, npmDownloads) != nil {
			return nil, nil
		}
		shown = []download{{Mount{Source: from, Target: filepath.Join(dir, npmDownloads), Mode: "ro"}, true, hidden}}
	case cache.Pip:
		// Its own cache, whose files hold headers too, serves no requirement by name: pip asks an
		// index first.
		var dirs []string
		for _, word := range strings.Fields(os.Getenv(pipFindLinks)) {
			from := source(req, word)
			if from == "" || slices.Contains(dirs, from) || len(strings.Fields(from)) != 1 || unmounted(spec, from) != nil || !packagesOnly(from) {
				continue
			}
			dirs, shown = append(dirs, from), append(shown, download{Mount: Mount{Source: from, Target: from, Mode: "ro"}})
		}
		if len(dirs) > 0 {
			vars = map[string]string{pipFindLinks: strings.Join(dirs, " ")}
		}
	}
	return shown, vars
}

// maxNPM is how many names there may be in npm's directory of downloads.
const maxNPM = 64

// npmHidden returns the names beside the content in npm's directory of downloads, and those of
// npm that may come there. It returns nil if there is no content.
func npmHidden(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNPM)
	if err != nil || len(names) == maxNPM || !slices.Contains(names, npmContent) {
		return nil
	}
	names = append(names, "index-v5", "tmp")
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == npmContent })
}

// pipFindLinks is the variable with directories in which pip looks for packages, besides an
// index: what pip download has written, for example.
const pipFindLinks = "PIP_FIND_LINKS"

// maxPackages is how many packages such a directory may have.
const maxPackages = 4096

// packagesOnly reports whether a directory has Python packages, and nothing else.
func packagesOnly(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	entries, err := f.ReadDir(maxPackages)
	return err == nil && len(entries) < maxPackages && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		name := e.Name()
		ends := func(end string) bool { return strings.HasSuffix(name, end) }
		return !e.Type().IsRegular() || !slices.ContainsFunc([]string{".whl", ".tar.gz", ".zip"}, ends)
	})
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
