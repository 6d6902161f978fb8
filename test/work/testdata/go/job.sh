# A module with a dependency: vet, tests that pass, tests that fail, a build
# that is the same to the byte, and its program.
export GOFLAGS="-mod=mod -trimpath -buildvcs=false" GOPROXY=off GOTOOLCHAIN=local
export CGO_ENABLED=0 GOCACHE=$HOME/go-build
# What this machine has compiled of the standard library is not compiled again, where
# it is little enough to link.
cp -rs "$COMPILED" "$GOCACHE" && rm -f "$GOCACHE"/*.txt || rm -rf "$GOCACHE"
go telemetry off
go vet ./...
go test ./...
status=0
FAIL=yes go test ./sum || status=$?
echo "tests that fail: status $status"
go build -o bin/job .
sha256sum bin/job
./bin/job
