package policy

import (
	"slices"
	"testing"
)

// Each name is in the inventory with the class that its readers expect.
func TestInventoryNames(t *testing.T) {
	type row struct {
		class              Class
		source, everywhere bool
		names              []string
	}
	for _, r := range []row{
		{Unasked, false, true, []string{".envrc", ".envrc.local", ".autoenv", ".autoenv.zsh", ".rvmrc", ".pkgx.yaml", ".pkgx.yml", "pkgx.yaml", "pkgx.yml",
			".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".hg/requires", ".sl/config", ".sl/sharedpath", ".sl/requires", ".jj/repo", ".jj/repo/config.toml", ".jj/repo/config-id", ".jj/workspace-config.toml",
			".jj/workspace-config-id", ".jj/repo/store/git_target", ".bzr/branch/branch.conf", ".bzr/branch/location", ".pijul/config", "_darcs/prefs/defaults", "_darcs/prefs/prefs"}},
		{Unasked, false, false, []string{
			".lazy.lua", ".lvimrc", ".local.vimrc", ".ycm_extra_conf.py", ".neoconf.json", ".vim/coc-settings.json", ".theia", ".vs", ".kateproject", ".luarc.json", ".luarc.jsonc",
			"rust-analyzer.toml", ".rust-analyzer.toml", "hie.yaml", ".lsp/config.edn", "buildServer.json", ".trae", ".augment", ".openhands", ".pi", ".agent", ".tabnine",
			".huskyrc", ".huskyrc.json", ".huskyrc.yaml", ".huskyrc.yml", ".huskyrc.js", ".trunk/trunk.yaml", ".trunk/user.yaml", "grumphp.yml.dist", "grumphp.yaml", "grumphp.yaml.dist",
			".pdbrc", ".pdbrc.py", "jupyter_config.py", "jupyter_config.json", "jupyter_server_config.py", "jupyter_server_config.json",
			"jupyter_notebook_config.py", "jupyter_notebook_config.json", "jupyter_lab_config.py", "jupyter_lab_config.json",
			".irbrc", ".pryrc", ".byebugrc", ".rdbgrc", ".gdbinit", ".lldbinit", ".ghci", ".ocamlinit", ".merlin", ".iex.exs", ".erlang", ".Rprofile", ".Renviron", ".RData", ".octaverc",
			".pylintrc", "pylintrc", ".pylintrc.toml", "pylintrc.toml", ".flake8", "mypy.ini", ".mypy.ini", "latexmkrc", ".latexmkrc",
		}},
		{WhenNamed, false, true, []string{"sitecustomize.py", "usercustomize.py"}},
		{WhenNamed, true, true, []string{"site-packages/.pth", "dist-packages/.pth", "pyvenv.cfg", "bin/activate", "bin/activate.csh", "bin/activate.fish", "bin/activate.nu", "bin/activate.xsh",
			"bin/activate_this.py", "bin/Activate.ps1", "bin/activate.ps1"}},
		{WhenNamed, false, false, []string{
			".bsp", ".run", ".fleet", "Session.vim", ".vimspector.json", ".projections.json", ".code-workspace", ".sublime-project", ".desktop",
			"devenv.local.nix", "devenv.local.yaml", "devbox.json", ".flox/env", ".prototools", "aqua.yaml", ".aqua.yaml", "bin/hermit", "bin/activate-hermit",
			".tmuxinator.yml", ".tmuxp.yaml", ".tmuxp.yml", ".tmuxp.json", "conductor.json",
			".commitlintrc", ".commitlintrc.json", ".commitlintrc.yaml", ".commitlintrc.yml", ".commitlintrc.js", ".commitlintrc.cjs", ".commitlintrc.mjs", ".commitlintrc.ts",
			"commitlint.config.js", "commitlint.config.cjs", "commitlint.config.mjs", "commitlint.config.ts", ".python-version", ".python-versions", ".pdm-python",
			"poetry.toml", "pdm.toml", ".pixi/config.toml", "tools/bazel", ".bazeliskrc", ".bazelversion",
			"compose.override.yaml", "compose.override.yml", "docker-compose.override.yml", "docker-compose.override.yaml",
			".gitpod.yml", ".gitpod.Dockerfile", ".replit", ".idx/dev.nix", ".codesandbox/tasks.json", "renv/activate.R", "startup.m",
			".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yaml", ".eslintrc.yml", "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts",
			"eslint.config.mts", "eslint.config.cts", ".prettierrc", ".prettierrc.json", ".prettierrc.json5", ".prettierrc.yaml", ".prettierrc.yml", ".prettierrc.toml", ".prettierrc.js", ".prettierrc.mjs",
			".prettierrc.cjs", ".prettierrc.ts", "prettier.config.js", "prettier.config.mjs", "prettier.config.cjs", "prettier.config.ts", ".stylelintrc", ".stylelintrc.json", ".stylelintrc.yaml",
			".stylelintrc.yml", ".stylelintrc.js", ".stylelintrc.cjs", ".stylelintrc.mjs", "stylelint.config.js", "stylelint.config.mjs", "stylelint.config.cjs", "stylelint.config.ts",
			".markdownlint-cli2.jsonc", ".markdownlint-cli2.yaml", ".markdownlint-cli2.cjs", ".markdownlint-cli2.mjs", ".markdownlint.cjs", ".markdownlint.mjs", "tsconfig.json", "jsconfig.json",
			".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json", ".custom-gcl.yml", ".custom-gcl.yaml", ".rubocop.yml", ".standard.yml", ".rspec", ".rspec-local", ".solargraph.yml", ".simplecov",
			".php-cs-fixer.php", ".php-cs-fixer.dist.php", "phpstan.neon", "phpstan.neon.dist", "rector.php", ".user.ini", ".htaccess", ".proverc", ".luacheckrc", ".busted", ".formatter.exs", ".credo.exs", ".lintr",
			"analysis_options.yaml", "config.nims", "nim.cfg", ".cmake-format.py", ".sqlfluff", ".tflint.hcl", "ansible.cfg", ".ansible-lint", ".sbtopts", ".jvmopts", ".mill-opts", ".mill-jvm-opts",
			"nuget.config", "NuGet.config", "NuGet.Config", "global.json", ".config/dotnet-tools.json", "Directory.Build.rsp", ".buckconfig", ".buckconfig.local", "pants.toml", ".pants.rc",
			".hgsub", ".p4config", "package.json5", "package.yaml", ".bowerrc", "vlt.json", ".commitlintrc.mts", "commitlint.config.cts", "lint-staged.config.ts", ".lintstagedrc.mts", ".nano-staged.json", "nano-staged.cjs", ".simple-git-hooks.mjs",
			".stylelintrc.ts", "oxlint.config.ts", ".oxlintrc.json", "xo.config.mjs", ".xo-config.json", ".remarkrc", ".remarkrc.mjs", ".textlintrc.js", ".htmlvalidate.cjs", "dprint.json",
			".moon", ".ddev", ".lando.yml", ".config/nextest.toml", "local.properties",
		}},
		{WhenNamed, true, false, []string{
			".env", "pytest.ini", ".pytest.ini", ".coveragerc", "manage.py", "fabfile.py", "dodo.py", "hatch_build.py", "Pipfile", "pixi.toml", "CMakeUserPresets.json", "docker-bake.hcl",
			"vite.config.js", "vite.config.ts", "vitest.config.mts", "jest.config.cjs", "playwright.config.ts", "webpack.config.js", "rollup.config.mjs", "babel.config.cts", ".babelrc.js", ".babelrc.cjs", ".babelrc.mjs",
			"Cargo.toml", "deno.json", "deno.jsonc", "gulpfile.js", "Gruntfile.js", "Jakefile", "nx.json", "project.json", "magefile.go", ".air.toml", ".goreleaser.yaml", ".goreleaser.yml",
			"build.sbt", "project/plugins.sbt", "project/build.properties", "build.sc", "build.mill", "project.clj", "deps.edn", "bb.edn", "Directory.Build.props", "Directory.Build.targets",
			"Guardfile", "Capfile", "Brewfile", "Podfile", "Dangerfile", "Fastfile", "Makefile.PL", "Build.PL", "cpanfile", "mix.exs", "rebar.config", "rebar.config.script", "Setup.hs", "dune", "dune-project",
			"Package.swift", "build.zig", "SConstruct", "SConscript", "wscript", "conanfile.py", "xmake.lua", "premake5.lua",
			"tailwind.config.cts", "postcss.config.mts", ".postcssrc", ".postcssrc.ts", "svelte.config.ts", "next.config.mjs", "nuxt.config.ts", "astro.config.mts", "rspack.config.ts", "rsbuild.config.mjs", "cypress.config.ts", "karma.conf.js", ".mocharc.yml",
			".mocharc.cjs", "tsup.config.ts", "unocss.config.js", "uno.config.ts", "metro.config.js", "remix.config.js", "gatsby-node.mjs", "gatsby-config.ts", "vue.config.js", "quasar.config.ts", "ember-cli-build.js", "gulpfile.mjs", "gulpfile.babel.js",
			"Gruntfile.coffee", "Jakefile.js", "plopfile.ts", "knip.json", "knip.config.ts", ".babelrc", "babel.config.json", ".storybook/main.ts", "webpack.config.cts", "jest.config.json", "cspell.json", "nodemon.json", "cdk.json", "wrangler.toml", "lerna.json",
			"Procfile", "Tiltfile", "Earthfile", "process-compose.yaml", "helmfile.yaml", "terragrunt.hcl", "Snakefile",
		}},
	} {
		for _, name := range r.names {
			i := slices.IndexFunc(Inventory(), func(o Obeyed) bool { return o.Under == Project && o.Path == name })
			if i < 0 {
				t.Errorf("%s is not in the inventory", name)
				continue
			}
			if o := Inventory()[i]; o.Class != r.class || o.Source != r.source || o.Everywhere != r.everywhere {
				t.Errorf("%s is %s, source %t, everywhere %t, want %s, %t, %t", name, o.Class, o.Source, o.Everywhere, r.class, r.source, r.everywhere)
			}
		}
	}
}

// Nothing that other version control systems write at each command is read-only.
func TestInventoryVersions(t *testing.T) {
	for _, name := range []string{
		".hg", ".hg/store", ".hg/dirstate", ".hg/branch", ".hg/last-message.txt", ".sl", ".sl/store", ".sl/dirstate", ".jj", ".jj/working_copy", ".jj/working_copy/checkout", ".jj/repo/op_heads", ".jj/repo/store", ".bzr",
		".bzr/branch/last-revision", ".bzr/checkout", ".pijul", ".pijul/pristine", "_darcs", "_darcs/hashed_inventory", "_darcs/prefs/sources",
	} {
		if slices.Contains(ProtectedPaths(), name) {
			t.Errorf("%s is read-only", name)
		}
	}
	if !slices.ContainsFunc(Inventory(), func(o Obeyed) bool { return o.Under == GitDir && o.Path == "sl/config" && o.ReadOnly() }) {
		t.Error("the configuration of Sapling in a repository of git is not protected")
	}
}
