package policy

import "slices"

// projectStarts returns the files that interpreters and debuggers run when they start in a
// directory.
func projectStarts() []Obeyed {
	return nested(slices.Concat(
		unasked(Project, "python", "pdb runs its commands when it starts there, also for breakpoint()", ".pdbrc", ".pdbrc.py"),
		unasked(Project, "jupyter", "jupyter runs it when it starts there", slices.Concat(forms("jupyter_config", "py", "json"), forms("jupyter_server_config", "py", "json"),
			forms("jupyter_notebook_config", "py", "json"), forms("jupyter_lab_config", "py", "json"))...),
		unasked(Project, "ruby", "ruby's consoles and debuggers run it when they start there", ".irbrc", ".pryrc", ".byebugrc", ".rdbgrc"),
		unasked(Project, "gdb", "gdb and lldb run it when they start there, where that is allowed", ".gdbinit", ".lldbinit"),
		unasked(Project, "haskell", "ghci runs it when it starts there", ".ghci"),
		unasked(Project, "ocaml", "ocaml's consoles run it when they start there", ".ocamlinit"),
		unasked(Project, "ocaml", "editors run the preprocessors it names", ".merlin"),
		unasked(Project, "elixir", "iex and erl run it when they start there", ".iex.exs", ".erlang"),
		unasked(Project, "R", "R runs or loads it when it starts there", ".Rprofile", ".Renviron", ".RData"),
		named(Project, "R", ".Rprofile runs it where renv has made that", "renv/activate.R"),
		unasked(Project, "octave", "octave runs it when it starts there", ".octaverc"),
		named(Project, "matlab", "matlab runs it when it starts there", "startup.m"),
	))
}

// projectCheckers returns the files that make linters, formatters and test runners run programs,
// which editors start when a file is opened or written.
func projectCheckers() []Obeyed {
	return slices.Concat(nested(slices.Concat(
		unasked(Project, "pylint", "pylint, also in editors, runs the code and the plugins it names", ".pylintrc", "pylintrc", ".pylintrc.toml", "pylintrc.toml"),
		unasked(Project, "flake8", "flake8, also in editors, loads the plugins it names", ".flake8"),
		unasked(Project, "mypy", "mypy, also in editors, loads the plugins it names", "mypy.ini", ".mypy.ini"),
		unasked(Project, "latexmk", "latexmk, also in editors, runs it", "latexmkrc", ".latexmkrc"),
		named(Project, "eslint", "eslint, also in editors, loads it and the plugins it names",
			slices.Concat(forms(".eslintrc", "", "js", "cjs", "json", "yaml", "yml"), forms("eslint.config", scripts...))...),
		named(Project, "prettier", "prettier, also in editors, loads it and the plugins it names",
			slices.Concat(forms(".prettierrc", "", "json", "json5", "yaml", "yml", "toml"), forms(".prettierrc", scripts...), forms("prettier.config", scripts...))...),
		named(Project, "stylelint", "stylelint, also in editors, loads it and the plugins it names",
			slices.Concat(forms(".stylelintrc", append(scripts, "", "json", "yaml", "yml")...), forms("stylelint.config", scripts...))...),
		named(Project, "oxlint", "oxlint, also in editors, loads the plugins it names", append(forms("oxlint.config", scripts...), ".oxlintrc.json")...),
		named(Project, "xo", "xo, also in editors, loads it and the plugins it names", append(forms("xo.config", scripts...), forms(".xo-config", append(scripts, "", "json")...)...)...),
		named(Project, "remark", "remark, also in editors, loads it and the plugins it names", forms(".remarkrc", append(scripts, "", "json", "yaml", "yml")...)...),
		named(Project, "textlint", "textlint, also in editors, loads it and the rules it names", forms(".textlintrc", append(scripts, "", "json", "yaml", "yml")...)...),
		named(Project, "html-validate", "html-validate, also in editors, loads it and the plugins it names", forms(".htmlvalidate", append(scripts, "json")...)...),
		named(Project, "dprint", "dprint, also in editors, runs the plugins and commands it names", "dprint.json", "dprint.jsonc", ".dprint.json", ".dprint.jsonc"),
		named(Project, "markdownlint", "markdownlint, also in editors, loads it and the rules it names",
			slices.Concat(forms(".markdownlint-cli2", "jsonc", "yaml", "cjs", "mjs"), forms(".markdownlint", "cjs", "mjs"))...),
		named(Project, "typescript", "editors load the plugins it names", "tsconfig.json", "jsconfig.json"),
		named(Project, "golangci-lint", "golangci-lint, also in editors, loads the plugins it names", append(forms(".golangci", "yml", "yaml", "toml", "json"), forms(".custom-gcl", "yml", "yaml")...)...),
		named(Project, "rubocop", "rubocop and standard, also in editors, load what it requires", ".rubocop.yml", ".standard.yml"),
		named(Project, "ruby", "ruby's tools, also in editors, load what it requires", ".rspec", ".rspec-local", ".solargraph.yml", ".simplecov"),
		named(Project, "php", "php's tools, also in editors, run it", ".php-cs-fixer.php", ".php-cs-fixer.dist.php", "phpstan.neon", "phpstan.neon.dist", "rector.php"),
		named(Project, "php", "web servers run the files it names", ".user.ini", ".htaccess"),
		named(Project, "perl", "prove obeys its options", ".proverc"),
		named(Project, "lua", "lua's tools, also in editors, run it", ".luacheckrc", ".busted"),
		named(Project, "elixir", "elixir's tools, also in editors, run it", ".formatter.exs", ".credo.exs"),
		named(Project, "R", "lintr, also in editors, runs it", ".lintr"),
		named(Project, "dart", "editors load the plugins it names", "analysis_options.yaml"),
		named(Project, "nim", "nim, also in editors, runs it", "config.nims", "nim.cfg"),
		named(Project, "cmake", "cmake-format, also in editors, runs it", ".cmake-format.py"),
		named(Project, "sqlfluff", "sqlfluff, also in editors, loads the modules it names", ".sqlfluff"),
		named(Project, "tflint", "tflint, also in editors, loads the plugins it names", ".tflint.hcl"),
		named(Project, "ansible", "ansible, also in editors, loads the plugins it names", "ansible.cfg", ".ansible-lint"),
	)))
}

// projectBuilds returns what further build tools and package managers run or obey when a person
// calls them.
func projectBuilds() []Obeyed {
	return slices.Concat(nested(slices.Concat(
		source(named(Project, "cargo", "cargo builds and runs what it names, also when an editor calls it", "Cargo.toml")),
		source(named(Project, "deno", "deno runs its tasks", "deno.json", "deno.jsonc")),
		source(named(Project, "node", "it is run by name", slices.Concat(forms("gulpfile", append(scripts, "babel.js", "esm.js")...), forms("Gruntfile", append(scripts, "coffee")...),
			forms("Jakefile", append(scripts, "")...), forms("plopfile", scripts...), []string{"nx.json", "project.json", "lerna.json", "rush.json"})...)),
		source(named(Project, "go", "mage, air and goreleaser run it", "magefile.go", ".air.toml", ".goreleaser.yaml", ".goreleaser.yml")),
		source(named(Project, "sbt", "sbt and mill run it, also when an editor calls them", "build.sbt", "project/plugins.sbt", "project/build.properties", "build.sc", "build.mill")),
		named(Project, "sbt", "sbt and mill start java with its options", ".sbtopts", ".jvmopts", ".mill-opts", ".mill-jvm-opts"),
		source(named(Project, "clojure", "it is run by name", "project.clj", "deps.edn", "bb.edn")),
		source(named(Project, "dotnet", "builds, also in editors, obey it", "Directory.Build.props", "Directory.Build.targets")),
		named(Project, "dotnet", "dotnet takes packages, tools and options from where it says", "nuget.config", "NuGet.config", "NuGet.Config", "global.json", ".config/dotnet-tools.json", "Directory.Build.rsp"),
		source(named(Project, "ruby", "it is run by name", "Guardfile", "Capfile", "Brewfile", "Podfile", "Dangerfile", "Fastfile")),
		source(named(Project, "perl", "it is run by name", "Makefile.PL", "Build.PL", "cpanfile")),
		source(named(Project, "elixir", "mix and rebar run it, also when an editor calls them", "mix.exs", "rebar.config", "rebar.config.script")),
		source(named(Project, "haskell", "it is run by name", "Setup.hs")),
		source(named(Project, "ocaml", "dune runs its rules", "dune", "dune-project")),
		source(named(Project, "Swift", "swift runs it, also when an editor calls it", "Package.swift")),
		source(named(Project, "zig", "zig runs it, also when an editor calls it", "build.zig")),
		source(named(Project, "C", "it is run by name", "SConstruct", "SConscript", "wscript", "conanfile.py", "xmake.lua", "premake5.lua")),
		source(named(Project, "processes", "it is run by name", "Procfile", "Tiltfile", "Earthfile", "process-compose.yaml", "helmfile.yaml", "terragrunt.hcl", "Snakefile")),
	)),
		nested(named(Project, "buck", "buck and pants obey it, whatever they are called for", ".buckconfig", ".buckconfig.local", "pants.toml", ".pants.rc")),
		namedDirs(Project, "moon", "moon runs its tasks and hooks", ".moon"),
		namedDirs(Project, "ddev", "ddev runs its commands on the host", ".ddev"),
		named(Project, "lando", "lando runs its commands", ".lando.yml"),
		named(Project, "cargo", "cargo nextest runs its scripts", ".config/nextest.toml"),
		named(Project, "android", "builds run the tools of the directory it names", "local.properties"),
	)
}

// projectScripts returns the configuration of JavaScript tools that is a program, or names
// programs that the tool loads. People write it as they write programs.
func projectScripts() []Obeyed {
	programs := []string{
		".babelrc", ".babelrc.json", "babel.config.json", ".postcssrc", ".postcssrc.json", ".postcssrc.yaml", ".postcssrc.yml", ".swcrc", ".parcelrc", "angular.json", "jest.config.json",
		".mocharc.json", ".mocharc.jsonc", ".mocharc.yaml", ".mocharc.yml", ".nycrc", ".nycrc.json", ".nycrc.yaml", ".nycrc.yml", ".c8rc", ".c8rc.json", ".taprc", "cypress.json", "nodemon.json", ".sequelizerc",
		"cspell.json", ".cspell.json", "cspell.yaml", "knip.json", "knip.jsonc", ".releaserc", ".releaserc.json", ".releaserc.yaml", ".releaserc.yml", ".release-it.json", ".versionrc", ".versionrc.json", ".czrc", ".size-limit.json",
		"electron-builder.json", "electron-builder.json5", "electron-builder.yml", "electron-builder.yaml", "typedoc.json", ".graphqlrc", ".graphqlrc.json", ".graphqlrc.yaml", ".graphqlrc.yml", "codegen.ts", "codegen.yml",
		".eleventy.js", "webpack.mix.js", "config-overrides.js", "craco.config.js", "ember-cli-build.js", "gatsby-browser.js", "gatsby-ssr.js", ".umirc.js", ".umirc.ts", "cucumber.js", "wallaby.js", "lighthouserc.js", ".lighthouserc.js", ".cz-config.js", "ecosystem.config.js",
		"cdk.json", "firebase.json", "netlify.toml", "serverless.js", "serverless.ts", "serverless.yml", "serverless.yaml", "wrangler.toml", "wrangler.json", "wrangler.jsonc", ".changeset/config.json",
	}
	for _, name := range []string{
		"vite.config", "vitest.config", "webpack.config", "rollup.config", "rolldown.config", "rspack.config", "rsbuild.config", "tsup.config", "tsdown.config", "build.config", "babel.config", "postcss.config", "tailwind.config", "uno.config", "unocss.config",
		"next.config", "nuxt.config", "nitro.config", "astro.config", "svelte.config", "remix.config", "react-router.config", "vue.config", "gatsby-config", "gatsby-node", "docusaurus.config", ".vitepress/config", ".storybook/main", ".storybook/preview",
		"app.config", "metro.config", "jest.config", "playwright.config", "cypress.config", "karma.conf", "wdio.conf", "knip.config", "prisma.config", "drizzle.config",
	} {
		programs = append(programs, forms(name, scripts...)...)
	}
	for _, name := range []string{
		".babelrc", ".postcssrc", "svgo.config", "stencil.config", "quasar.config", "eleventy.config", ".vuepress/config", "react-native.config", "forge.config", "capacitor.config", "electron.vite.config", ".mocharc", "ava.config", "nyc.config", "stryker.config",
		"web-test-runner.config", ".dependency-cruiser", ".ncurc", ".size-limit", "release.config", ".releaserc", ".release-it", ".versionrc", "typedoc", "graphql.config", ".graphqlrc", "truffle-config", "cspell.config", "knexfile", "ormconfig", "hardhat.config", "sst.config", "panda.config",
	} {
		programs = append(programs, forms(name, "js", "cjs", "mjs", "ts")...)
	}
	return entries(Obeyed{
		Under: Project, Class: WhenNamed, Nested: true, Source: true, Tool: "node", Why: "build tools and test runners, also in editors, run it, or what it names",
	}, programs)
}
