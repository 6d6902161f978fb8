# Makes the workspace a repository before the sandbox opens, so that its hooks
# and its configuration are protected.
export GIT_CONFIG_NOSYSTEM=1
git init -q -b main .
printf '#!/bin/sh\necho hook ran\n' >.git/hooks/pre-commit
chmod +x .git/hooks/pre-commit
seq 1000 >numbers
