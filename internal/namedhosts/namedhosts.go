// Package namedhosts finds the hosts that files of a workspace name as places to download from:
// configuration of package managers, lock files, remotes and submodules of git.
//
// These files are whoever's who wrote the repository, or were written by commands of a sandbox.
// They are read to be repeated to the user, and never obeyed. No link in the workspace is
// followed, no FIFO is waited for, and what is read and found is bounded.
package namedhosts

import (
	"context"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// Named is a host that a file names.
type Named struct {
	Rule policy.NetworkRule // which would open it, at one port
	File string             // the first file that names it, relative to the workspace
	Lock bool               // it is a lock file
}

// Bounds: what is beyond them is left out.
const (
	maxFile  = 8 << 20 // bytes of one file; a larger one is not read at all
	maxHosts = 64
	maxURLs  = 20000 // of one file
	wait     = 2 * time.Second
)

// kind is a kind of file, and which of its texts are URLs to download from.
type kind struct {
	name string
	urls string // an expression whose first group is a URL; compiled where there is such a file
	lock bool
}

// anyURL matches a URL wherever it stands; what precedes it may be a credential's name.
const anyURL = `((?:[a-z0-9]+\+)?(?:https?|ssh|git)://[^\s"'<>` + "`" + `,;\\]+)`

// kinds are the files that are looked at, in the top directory of a workspace.
var kinds = []kind{
	{name: ".npmrc", urls: `(?m)^\s*(?:@[\w.-]+:)?registry\s*=\s*"?` + anyURL},
	{name: ".yarnrc", urls: `(?m)registry"?\s+"?` + anyURL},
	{name: ".yarnrc.yml", urls: `(?m)^\s*npmRegistryServer:\s*"?` + anyURL},
	{name: ".cargo/config.toml", urls: `(?m)(?:index|registry|git)\s*=\s*"` + anyURL},
	{name: ".cargo/config", urls: `(?m)(?:index|registry|git)\s*=\s*"` + anyURL},
	{name: "pip.conf", urls: anyURL},
	{name: "requirements.txt", urls: anyURL},
	{name: "pyproject.toml", urls: `(?m)^\s*(?:url|index-url|git)\s*=\s*"` + anyURL},
	{name: "Pipfile", urls: `(?m)^\s*url\s*=\s*"` + anyURL},
	{name: ".git/config", urls: gitURL},
	{name: ".gitmodules", urls: gitURL},
	{name: "package-lock.json", urls: `"resolved":\s*"` + anyURL, lock: true},
	{name: "npm-shrinkwrap.json", urls: `"resolved":\s*"` + anyURL, lock: true},
	{name: "yarn.lock", urls: `(?m)^\s*(?:resolved|resolution:)\s+"[^"\n]*?` + anyURL, lock: true},
	{name: "pnpm-lock.yaml", urls: `(?:tarball|repo):\s*['"]?` + anyURL, lock: true},
	{name: "Cargo.lock", urls: `(?m)^source\s*=\s*"` + anyURL, lock: true},
	{name: "poetry.lock", urls: `(?m)^url\s*=\s*"` + anyURL, lock: true},
	{name: "uv.lock", urls: `(?:url|registry|git)\s*=\s*"` + anyURL, lock: true},
	{name: "Pipfile.lock", urls: `"url":\s*"` + anyURL, lock: true},
}

// gitURL matches the places of remotes and submodules: URLs, and user@host:path.
const gitURL = `(?m)^\s*(?:push)?url\s*=\s*"?(\S+?)"?\s*$`

// Find returns the hosts that files of a workspace name, each port once, at most 64. Within a
// bounded time it reads what it can.
func Find(ctx context.Context, workspace string) []Named {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var found []Named
	for _, k := range kinds {
		text, err := hostpath.Read(ctx, workspace, k.name, maxFile)
		if ctx.Err() != nil {
			return found
		}
		if err != nil {
			continue
		}
		last := ""
		for _, m := range regexp.MustCompile(k.urls).FindAllSubmatch(text, maxURLs) {
			address := string(m[1])
			head := origin(address)
			if head == last { // lock files name one host again and again
				continue
			}
			last = head
			rule, ok := ruleFor(address)
			if !ok || slices.ContainsFunc(found, func(n Named) bool { return n.Rule.Host == rule.Host && n.Rule.Ports[0] == rule.Ports[0] }) {
				continue
			}
			if found = append(found, Named{Rule: rule, File: k.name, Lock: k.lock}); len(found) == maxHosts {
				return found
			}
		}
	}
	return found
}

// origin returns a URL without its path.
func origin(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// metadata are addresses of metadata services that are not link-local.
var metadata = []string{"100.100.100.200", "168.63.129.16", "192.0.0.192"}

// ports are the ports of schemes that have one.
var ports = map[string]policy.Port{"https": 443, "http": 80, "ssh": 22, "git": 9418}

// ruleFor returns the rule that would open the host of a URL, or of git's user@host:path.
func ruleFor(address string) (rule policy.NetworkRule, ok bool) {
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		user, place, at := strings.Cut(address, "@")
		name, _, colon := strings.Cut(place, ":")
		if !at || !colon || strings.Contains(user, "/") {
			return rule, false
		}
		scheme, rest = "ssh", name
	}
	scheme = scheme[strings.LastIndexByte(scheme, '+')+1:]
	u, err := url.Parse(scheme + "://" + rest)
	port := ports[scheme]
	if err != nil || port == 0 {
		return rule, false
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return rule, false
		}
		port = policy.Port(n)
	}
	host, reason, _ := policy.CanonicalHost(u.Hostname())
	if reason != "" || strings.ContainsAny(host, "*/") {
		return rule, false
	}
	// Nobody downloads from the metadata services of clouds, so no advice opens them.
	if address, err := netip.ParseAddr(host); err == nil && (address.IsLinkLocalUnicast() || slices.Contains(metadata, host)) {
		return rule, false
	}
	return policy.NetworkRule{Host: host, Ports: []policy.Port{port}}, true
}
