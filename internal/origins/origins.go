// Package origins asks the caller's package managers where they download from.
//
//	answer, err := origins.Ask(ctx, origins.Request{Tools: []string{"npm"}, Sandbox: req, LookupEnv: os.LookupEnv})
//
// Each tool that the caller's PATH names is executed on the host, in a new and empty directory of the
// state directory, in which and above which nobody else can make files, with the configuration of the
// user and the system alone, and its answer becomes rules of the network. So there is no list of other
// people's hosts, and mirrors count. Nothing of the workspace is obeyed or executed: a program, a
// directory of programs or a file of configuration that commands of sandboxes could have written is
// refused, and so is one in the workspace.
package origins

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Request is what to ask, and for which sandbox.
type Request struct {
	// Tools are words of [Tools].
	Tools []string
	// Sandbox is the request of the sandbox that the rules are for. Its Path names the tools,
	// and its mounts are those that commands can write.
	Sandbox backend.Request
	// LookupEnv reads the caller's environment.
	LookupEnv func(name string) (string, bool)
	// Environ lists the caller's environment.
	Environ []string
	// Patience is how long one tool may take. Default: 20 s.
	Patience time.Duration
}

// Answer is what the tools said.
type Answer struct {
	// Rules open the hosts, each once, in the order in which tools named them.
	Rules []policy.NetworkRule
	// Env are variables that let a tool inside go where the caller's own goes, if the caller
	// has configured that. They have no credentials.
	Env map[string]string
	// Notes are lines for the user: what was not included, and why.
	Notes []string
}

// Tools are the words for the tools that can be asked.
func Tools() []string { return []string{"apt", "cargo", "go", "npm", "pip"} }

// Ask asks tools, all at once. The error joins one [*policy.FieldError] of the field
// "allow_from" for each that cannot be asked.
func Ask(ctx context.Context, r Request) (Answer, error) {
	var errs []error
	var tools []string
	for _, word := range r.Tools {
		switch {
		case !slices.Contains(Tools(), word):
			errs = append(errs, refuse(word, "unknown tool", "the tools are "+strings.Join(Tools(), ", ")))
		case !slices.Contains(tools, word):
			tools = append(tools, word)
		}
	}
	if len(errs) > 0 {
		return Answer{}, errors.Join(errs...)
	}
	h, err := newHost(r)
	if err != nil {
		return Answer{}, err
	}
	if r.Patience == 0 {
		r.Patience = 20 * time.Second
	}
	found, failed := make([]Answer, len(tools)), make([]error, len(tools))
	var asking sync.WaitGroup
	for i, tool := range tools {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, r.Patience)
			defer cancel()
			q := question{host: h, tool: tool, Answer: Answer{Env: map[string]string{}}}
			if failed[i] = q.ask(ctx); failed[i] != nil {
				failed[i] = explain(tool, failed[i])
			}
			found[i] = q.Answer
		})
	}
	asking.Wait()
	all := Answer{Env: map[string]string{}}
	for _, a := range found {
		for _, rule := range a.Rules {
			all.add(rule)
		}
		maps.Copy(all.Env, a.Env)
		all.Notes = append(all.Notes, a.Notes...)
	}
	return all, errors.Join(failed...)
}

func refuse(tool, reason, hint string) error {
	return &policy.FieldError{Field: "allow_from", Value: tool, Reason: reason, Hint: hint}
}

// explain returns the error of a tool that could not be asked.
func explain(tool string, err error) error {
	if e := (*policy.FieldError)(nil); errors.As(err, &e) && e.Field == "allow_from" {
		return err
	}
	reason := hostpath.Reason(err)
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		reason = e.Reason
	}
	return refuse(tool, "cannot ask "+tool+": "+text.Escape(reason), "name its hosts instead: `network.allow` HOST")
}

// add adds a rule, or its ports to the rule for the same host.
func (a *Answer) add(rule policy.NetworkRule) {
	i := slices.IndexFunc(a.Rules, func(r policy.NetworkRule) bool { return r.Host == rule.Host })
	if i < 0 {
		a.Rules = append(a.Rules, rule)
		return
	}
	for _, port := range rule.Ports {
		if !slices.Contains(a.Rules[i].Ports, port) {
			a.Rules[i].Ports = append(a.Rules[i].Ports, port)
		}
	}
}

// note adds a line about the tool of a question.
func (q *question) note(line string) {
	q.Notes = append(q.Notes, "`allow_from` "+q.tool+": "+text.Escape(text.Prefix(line, 512)))
}

// open makes a rule of a URL that the tool has named, or says why none can open it. Credentials
// in it go nowhere.
func (q *question) open(address string) {
	rule, why := ruleFor(address)
	if why != "" {
		q.note(why + ": not included")
		return
	}
	q.add(rule)
}

// ruleFor returns the rule that opens the host of a URL, or why there is none.
func ruleFor(address string) (rule policy.NetworkRule, why string) {
	u, err := url.Parse(address)
	if err != nil {
		return rule, "a URL that cannot be read"
	}
	if _, scheme, ok := strings.Cut(u.Scheme, "+"); ok { // sparse+https
		u.Scheme = scheme
	}
	named := u.Scheme + "://" + u.Host
	var port policy.Port
	switch u.Scheme {
	case "https":
		port = 443
	case "http":
		port = 80
	case "file", "":
		return rule, text.Prefix(u.Redacted(), 200) + " is a path of this host, which commands see only if it is mounted"
	default:
		return rule, named + " is not reached by HTTP"
	}
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return rule, named + " has a port that cannot be used"
		}
		port = policy.Port(n)
	}
	host, reason, _ := policy.CanonicalHost(u.Hostname())
	switch {
	case reason != "":
		return rule, named + " cannot be opened (" + reason + ")"
	case strings.Contains(host, "*") || strings.Contains(host, "/"):
		return rule, named + " is not one host"
	}
	return policy.NetworkRule{Host: host, Ports: []policy.Port{port}}, ""
}

// secret reports whether a URL, or a list of them, has credentials.
func secret(addresses string) bool { return strings.Contains(addresses, "@") }

// pass sets a variable inside, unless its value has credentials.
func (q *question) pass(name, value string) {
	switch {
	case value == "":
	case secret(value):
		q.note("your setting has credentials, and is not passed on as " + name)
	default:
		q.Env[name] = value
	}
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
