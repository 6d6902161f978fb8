# A package with a local dependency: install, test, run a script.
export NO_UPDATE_NOTIFIER=1 npm_config_audit=false npm_config_fund=false npm_config_offline=true
npm install --silent
npm test --silent >test.log && grep -E '^# (pass|fail)' test.log
npm run start
