// Package wrap has the operation that runs a coding agent inside a sandbox as a whole: wrap.
//
// What it must know of an agent is a row of the table in agents.go: where it asks its model,
// how it shows who it is, where it keeps its settings and its login, and how its own sandbox
// is switched off. The agent gets a private copy of its settings, which ends with the sandbox.
// Of what it changed in it only its login comes back, checked and merged (login.go).
package wrap

import (
	"context"
	"path"
	"strings"
)

// agent is a row of the table.
type agent struct {
	name string // of its program
	// api is the host of its API, and base the variable of the caller's that names another
	// one, by a URL; "" if there is none.
	api, base string
	// keys are the variables from which it takes a key, the first one that is set counts.
	keys []key
	// dir is the directory of its settings, below the caller's home and below HOME inside, and
	// dirVar the variable of the caller's that names another one.
	dir, dirVar string
	// shows are the files and directories in it that the private copy has.
	shows []string
	// hides are members of its files, "FILE:a.b", that the copy does not have: they are keys,
	// or programs that give keys.
	hides []string
	login login
	// prepare, if not nil, completes the private copy.
	prepare func(ctx context.Context, c *settings, standIn string) error

	// env are variables inside.
	env map[string]string
	// off are arguments that switch its own sandbox off, and unasked those with which it does
	// not ask before it does something.
	off, unasked []string
}

// key is how an agent shows a key.
type key struct {
	variable string // where it takes it from
	// header carries it to the API, as format, in which "{}" is the key.
	header, format string
	// standIn is what the variable holds inside.
	standIn string
}

// login is the file in which an agent keeps a login, and what of it comes back.
type login struct {
	file string // in the directory of its settings
	// hosts are those that it needs with a login, besides that of its API, or in its place if
	// instead is set.
	hosts   []string
	instead bool
	// fresh are the members that the agent renews. Only these come back.
	fresh []string
	// key is a member that has a key in place of a login, "" if there is none: what is there
	// stays outside, as the last of the agent's keys.
	key string
	// account are members that must be as they were, and tokens those whose "sub", in a JSON
	// Web Token, must be: they name the account.
	account, tokens []string
}

// agents is the table. docs/wrap.md lists it.
var agents = []agent{
	{
		name: "claude",
		api:  "api.anthropic.com",
		base: "ANTHROPIC_BASE_URL",
		keys: []key{
			{"ANTHROPIC_API_KEY", "X-Api-Key", "{}", "sk-ant-api03-stand-in-the-key-itself-stays-outside-of-this-sandbox"},
			{"ANTHROPIC_AUTH_TOKEN", "Authorization", "Bearer {}", "stand-in-the-token-itself-stays-outside-of-this-sandbox"},
			{"CLAUDE_CODE_OAUTH_TOKEN", "Authorization", "Bearer {}", "sk-ant-oat01-stand-in-the-token-itself-stays-outside-of-this-sandbox"},
		},
		dir: ".claude", dirVar: "CLAUDE_CONFIG_DIR",
		shows: []string{"settings.json", "CLAUDE.md", "agents", "commands", "hooks", "keybindings.json", "output-styles", "plugins", "rules", "skills"},
		hides: []string{"settings.json:apiKeyHelper", "settings.json:env.ANTHROPIC_API_KEY", "settings.json:env.ANTHROPIC_AUTH_TOKEN", "settings.json:env.CLAUDE_CODE_OAUTH_TOKEN"},
		login: login{
			file:    ".credentials.json",
			hosts:   []string{"platform.claude.com"},
			fresh:   []string{"claudeAiOauth.accessToken", "claudeAiOauth.refreshToken", "claudeAiOauth.expiresAt", "claudeAiOauth.refreshTokenExpiresAt"},
			account: []string{"claudeAiOauth.scopes", "claudeAiOauth.subscriptionType", "organizationUuid"},
		},
		prepare: prepareClaude,
		env:     map[string]string{"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"},
		off:     []string{"--settings", `{"sandbox":{"enabled":false}}`},
		unasked: []string{"--dangerously-skip-permissions"},
	},
	{
		name: "codex",
		api:  "api.openai.com",
		keys: []key{
			{"CODEX_API_KEY", "Authorization", "Bearer {}", "sk-stand-in-the-key-itself-stays-outside-of-this-sandbox"},
			{"OPENAI_API_KEY", "Authorization", "Bearer {}", "sk-stand-in-the-key-itself-stays-outside-of-this-sandbox"},
		},
		dir: ".codex", dirVar: "CODEX_HOME",
		shows: []string{"config.toml", "AGENTS.md", "AGENTS.override.md", "hooks.json", "prompts", "rules", "skills"},
		login: login{
			file:    "auth.json",
			hosts:   []string{"chatgpt.com", "auth.openai.com"},
			key:     "OPENAI_API_KEY",
			fresh:   []string{"tokens.id_token", "tokens.access_token", "tokens.refresh_token", "last_refresh"},
			account: []string{"auth_mode", "OPENAI_API_KEY", "tokens.account_id"},
			tokens:  []string{"tokens.id_token", "tokens.access_token"},
		},
		prepare: prepareCodex,
		off:     []string{"-c", `sandbox_mode="danger-full-access"`, "-c", "check_for_update_on_startup=false"},
		unasked: []string{"-c", `approval_policy="never"`},
	},
	{
		name: "gemini",
		api:  "generativelanguage.googleapis.com",
		base: "GOOGLE_GEMINI_BASE_URL",
		keys: []key{{"GEMINI_API_KEY", "X-Goog-Api-Key", "{}", "stand-in-the-key-itself-stays-outside-of-this-sandbox"}},
		dir:  ".gemini",
		shows: []string{"settings.json", "GEMINI.md", "google_accounts.json", "installation_id", "trustedFolders.json", "agents",
			"commands", "extensions", "policies", "skills"},
		login: login{
			file:  "oauth_creds.json",
			hosts: []string{"cloudcode-pa.googleapis.com", "oauth2.googleapis.com"}, instead: true,
			fresh:   []string{"access_token", "expiry_date", "id_token", "refresh_token"},
			account: []string{"scope", "token_type"},
			tokens:  []string{"id_token"},
		},
		// It starts no sandbox of its own where it is in one.
		env:     map[string]string{"SANDBOX": "paddock", "GEMINI_CLI_NO_RELAUNCH": "true"},
		unasked: []string{"--approval-mode=yolo"},
	},
}

// agentOf returns the row of a command, nil for any other command than an agent's.
func agentOf(argv []string) *agent {
	for i := range agents {
		if len(argv) > 0 && path.Base(argv[0]) == agents[i].name {
			return &agents[i]
		}
	}
	return nil
}

// known are the agents of the table, for help and errors.
func known() string {
	names := make([]string, len(agents))
	for i := range agents {
		names[i] = agents[i].name
	}
	return strings.Join(names, ", ")
}
