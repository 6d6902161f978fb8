package toolchain

// tool is a row of the table: a tool, how an entry of PATH is recognized as its own, and what
// of its directories becomes visible then.
//
// All patterns are relative to the directory of a place, and clean. "*" stands for one name,
// or a part of one, and "$1" for the name that the first "*" of the matching entry stands
// for. Nothing else in these directories becomes visible.
type tool struct {
	name string
	// entries are the directories of programs, relative to the first place. In "*/bin" of a
	// tool with anywhere, "*" is any directory below HOME.
	entries  []string
	anywhere bool
	// needs must exist for an entry to be the tool's.
	needs []string
	// programs are files in the entry which become visible alone, not the directory; links
	// are links there, which become visible if they lead to what is visible of this tool.
	programs, links []string
	places          []place
}

// place is one directory of a tool.
type place struct {
	// vars are variables of the caller's that name the directory, or one above it:
	// "XDG_DATA_HOME/fnm". usual are its usual paths below HOME. The first one that
	// exists counts. A variable that names no directory below HOME is ignored.
	vars, usual []string
	// only is a pattern: a directory counts only if each name in it that does not begin
	// with a point matches.
	only string
	// shows are the files and directories that become visible. Those that end in "?" may
	// be missing.
	shows []string
	// versions says that a file of shows becomes visible only if all that it says is which
	// versions of tools to use.
	versions bool
	// hides are files and directories in them that may have credentials. They are covered
	// where they exist.
	hides []string
	// set are variables for commands. "$0" stands for the place.
	set map[string]string
	// spare says that the tool may exist without this place.
	spare bool
}

// Where tools keep credentials in the tree of an installed version.
const (
	npmrc   = "etc/npmrc" // npm's global configuration
	pipConf = "pip.conf"  // pip's, for one Python
	jmx     = "management/jmxremote.password"
	maven   = "conf/settings.xml" // covered only if it has a password: Maven needs the file as it was shipped
)

// python are pip's and conda's in the tree of a Python.
var python = []string{pipConf, ".condarc", "condarc", "condarc.d"}

// installed are those of an installed version of any tool.
var installed = append([]string{npmrc, maven}, python...)

// below returns the paths below each directory.
func below(dirs []string, paths ...string) (all []string) {
	for _, dir := range dirs {
		for _, p := range paths {
			all = append(all, dir+"/"+p)
		}
	}
	return all
}

// table are the tools. SECURITY.md and docs/run.md list them.
var table = []tool{
	{
		name:    "nvm",
		entries: []string{"versions/node/*/bin"},
		places: []place{{
			vars: []string{"NVM_DIR", "XDG_CONFIG_HOME/nvm"}, usual: []string{".nvm", ".config/nvm"},
			shows: []string{"versions/node/$1"},
			hides: []string{"versions/node/$1/" + npmrc},
		}},
	},
	{
		name:    "fnm", // its entries are links, of one shell each, to these directories
		entries: []string{"node-versions/*/installation/bin"},
		places: []place{{
			vars: []string{"FNM_DIR", "XDG_DATA_HOME/fnm"}, usual: []string{".local/share/fnm", ".fnm"},
			shows: []string{"node-versions/$1/installation"},
			hides: []string{"node-versions/$1/installation/" + npmrc},
		}},
	},
	{
		name:    "volta",
		entries: []string{"bin"},
		needs:   []string{"bin/volta-shim"},
		places: []place{{
			vars: []string{"VOLTA_HOME"}, usual: []string{".volta"},
			shows: []string{"bin", "tools/image?", "tools/user?", "tools/inventory/node?", "layout.v*?"},
			hides: []string{"tools/image/node/*/" + npmrc},
			set:   map[string]string{"VOLTA_HOME": "$0"},
		}},
	},
	{
		name:    "pyenv",
		entries: []string{"shims", "bin", "libexec"},
		needs:   []string{"libexec/pyenv"},
		places: []place{{
			vars: []string{"PYENV_ROOT"}, usual: []string{".pyenv"},
			shows: []string{"bin", "libexec", "shims?", "versions?", "version?", "pyenv.d?"},
			hides: below([]string{"versions/*", "versions/*/envs/*"}, python...),
			set:   map[string]string{"PYENV_ROOT": "$0"},
		}},
	},
	{
		name:    "pyenv",
		entries: []string{"versions/*/bin", "versions/*/envs/*/bin"},
		places: []place{{
			vars: []string{"PYENV_ROOT"}, usual: []string{".pyenv"},
			shows: []string{"versions/$1"},
			hides: below([]string{"versions/$1", "versions/$1/envs/*"}, python...),
		}},
	},
	{
		name:     "uv",
		entries:  []string{".local/bin", ".cargo/bin"},
		programs: []string{"uv", "uvx"},
		links:    []string{"python*"},
		places: []place{{usual: []string{"."}}, {
			vars: []string{"UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME/uv/python"}, usual: []string{".local/share/uv/python"},
			only:  "*-*-*",       // cpython-3.12.1-linux-x86_64-gnu
			shows: []string{"."}, // with the links there, which virtual environments lead to
			hides: []string{"*/" + pipConf},
			set:   map[string]string{"UV_PYTHON_INSTALL_DIR": "$0"},
			spare: true,
		}},
	},
	{
		name:    "uv",
		entries: []string{"*/bin"},
		places: []place{{
			vars: []string{"UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME/uv/python"}, usual: []string{".local/share/uv/python"},
			only:  "*-*-*", // cpython-3.12.1-linux-x86_64-gnu
			shows: []string{"$1"},
			hides: []string{"$1/" + pipConf},
		}},
	},
	{
		name:    "rustup", // and cargo: CARGO_HOME stays HOME's, which commands can write
		entries: []string{"bin"},
		places: []place{{
			vars: []string{"CARGO_HOME"}, usual: []string{".cargo"},
			shows: []string{"bin"},
		}, {
			vars: []string{"RUSTUP_HOME"}, usual: []string{".rustup"},
			shows: []string{"toolchains?", "settings.toml?"},
			set:   map[string]string{"RUSTUP_HOME": "$0", "RUSTUP_AUTO_INSTALL": "0"},
			spare: true,
		}},
	},
	{
		name:    "sdkman",
		entries: []string{"candidates/java/*/bin"},
		places: []place{{
			vars: []string{"SDKMAN_DIR"}, usual: []string{".sdkman"},
			shows: []string{"candidates/java/$1"},
			hides: below([]string{"candidates/java/$1"}, "conf/"+jmx, "lib/"+jmx, "jre/lib/"+jmx),
			set:   map[string]string{"JAVA_HOME": "$0/candidates/java/$1"},
		}},
	},
	{
		name:    "sdkman",
		entries: []string{"candidates/maven/*/bin"},
		places: []place{{
			vars: []string{"SDKMAN_DIR"}, usual: []string{".sdkman"},
			shows: below([]string{"candidates/maven/$1"}, "bin", "boot", "lib", "conf/logging?"), // without conf/settings.xml
		}},
	},
	sdkmanOther("gradle"), sdkmanOther("kotlin"), sdkmanOther("groovy"), sdkmanOther("scala"), sdkmanOther("ant"),
	{
		name:    "asdf",
		entries: []string{"shims", "bin"},
		needs:   []string{"installs"},
		places: []place{{
			vars: []string{"ASDF_DATA_DIR", "ASDF_DIR"}, usual: []string{".asdf"},
			shows: []string{"shims", "installs", "plugins?", "bin?", "lib?", "asdf.sh?"},
			hides: append(below([]string{"installs/*/*"}, installed...), "plugins/*/.git"),
			set:   map[string]string{"ASDF_DATA_DIR": "$0"},
		}, {
			usual: []string{"."},
			shows: []string{".tool-versions?", ".asdfrc?"},
			spare: true,
		}},
	},
	{
		name:     "asdf", // its program, from version 0.16 on
		entries:  []string{".local/bin"},
		programs: []string{"asdf"},
		places:   []place{{usual: []string{"."}}},
	},
	{
		name:    "mise",
		entries: []string{"shims"},
		places: []place{{
			vars: []string{"MISE_DATA_DIR", "XDG_DATA_HOME/mise"}, usual: []string{".local/share/mise"},
			shows: []string{"shims", "installs", "plugins?", ".fake-asdf?"},
			hides: append(below([]string{"installs/*/*"}, installed...), "plugins/*/.git"),
			set:   miseSettings,
		}, {
			usual: []string{"."},
			shows: []string{".tool-versions?", ".local/bin/mise?"},
			spare: true,
		}, miseConfig},
	},
	{
		name:     "mise",
		entries:  []string{".local/bin"},
		programs: []string{"mise"},
		places: []place{{usual: []string{"."}}, {
			vars: []string{"MISE_DATA_DIR", "XDG_DATA_HOME/mise"}, usual: []string{".local/share/mise"},
			shows: []string{"installs?"},
			hides: below([]string{"installs/*/*"}, installed...),
			set:   miseSettings,
			spare: true,
		}, miseConfig},
	},
	{
		name:    "mise",
		entries: []string{"installs/*/*/bin", "installs/*/*", "installs/*/*/*", "installs/*/*/*/bin"},
		places: []place{{
			vars: []string{"MISE_DATA_DIR", "XDG_DATA_HOME/mise"}, usual: []string{".local/share/mise"},
			shows: []string{"installs/$1/$2"},
			hides: below([]string{"installs/$1/$2"}, installed...),
		}},
	},
	{
		name:    "bun", // not install/, which has its cache
		entries: []string{"bin"},
		needs:   []string{"bin/bun"},
		places:  []place{{vars: []string{"BUN_INSTALL"}, usual: []string{".bun"}, shows: []string{"bin"}}},
	},
	{
		name:    "deno",
		entries: []string{"bin"},
		needs:   []string{"bin/deno"},
		places:  []place{{vars: []string{"DENO_INSTALL", "DENO_INSTALL_ROOT"}, usual: []string{".deno"}, shows: []string{"bin"}}},
	},
	{
		name:    "go", // what "go install" has made
		entries: []string{"bin"},
		places: []place{{
			vars: []string{"GOPATH"}, usual: []string{"go"},
			shows: []string{"bin"},
		}},
	},
	{
		name:     "go", // a whole Go: ~/sdk/go1.26.0, ~/.local/go, ~/go/pkg/mod/golang.org/toolchain@…
		entries:  []string{"*/bin"},
		anywhere: true,
		needs:    []string{"bin/go", "VERSION", "src/runtime"},
		places: []place{{
			shows: []string{"bin", "src", "pkg/tool", "pkg/include?", "lib?", "VERSION", "go.env?"},
		}},
	},
}

// miseConfig is what "mise use --global" writes, without which its shims run the system's programs.
var miseConfig = place{usual: []string{".config/mise"}, shows: []string{"config.toml?"}, versions: true, spare: true}

// miseSettings make mise neither install nor ask: what it may do inside, any command may.
var miseSettings = map[string]string{"MISE_DATA_DIR": "$0", "MISE_TRUSTED_CONFIG_PATHS": "/", "MISE_OFFLINE": "1", "MISE_NOT_FOUND_AUTO_INSTALL": "0"}

// sdkmanOther returns the row of a candidate of sdkman that needs no other directories than these.
func sdkmanOther(candidate string) tool {
	at := "candidates/" + candidate
	return tool{
		name:    "sdkman",
		entries: []string{at + "/*/bin"},
		places: []place{{
			vars: []string{"SDKMAN_DIR"}, usual: []string{".sdkman"},
			shows: below([]string{at + "/$1"}, "bin", "lib?"),
		}},
	}
}
