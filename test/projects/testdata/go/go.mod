module example.invalid/notes

go 1.26.0

require (
	github.com/BurntSushi/toml v1.6.0
	github.com/Masterminds/semver/v3 v3.5.0
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/dustin/go-humanize v1.1.0
	github.com/gobwas/glob v1.1.0
	github.com/golang/snappy v1.0.0
	github.com/google/go-cmp v0.7.0
	github.com/hashicorp/golang-lru/v2 v2.0.7
	github.com/jessevdk/go-flags v1.6.1
	github.com/mattn/go-runewidth v0.0.31
	github.com/mr-tron/base58 v1.3.0
	github.com/pmezard/go-difflib v1.0.0
	github.com/robfig/cron/v3 v3.0.1
	github.com/tidwall/gjson v1.20.1
	github.com/yuin/goldmark v1.8.7
	go.uber.org/multierr v1.11.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/crypto v0.59.0
	golang.org/x/sync v0.25.0
	golang.org/x/text v0.44.0
)

require (
	github.com/clipperhouse/uax29/v2 v2.2.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
