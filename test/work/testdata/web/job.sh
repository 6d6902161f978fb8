# A web server in the background, and clients of it.
seq 1 100000 >page
mkfifo log
PYTHONUNBUFFERED=1 python3 -m http.server --bind 127.0.0.1 0 >log 2>errors &
read -r line <log
port=$(echo "$line" | sed 's/.* port \([0-9]*\) .*/\1/')
curl -sS "http://127.0.0.1:$port/page" | sha256sum
curl -sS -o copy -w '%{http_code} %{size_download}\n' "http://localhost:$port/page"
cmp page copy && echo 'the same'
seq 1 20 | xargs -P 5 -I{} curl -sS -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$port/page" | sort | uniq -c
kill $!
wait $! || echo "the server ended with $?"
curl -sS "http://127.0.0.1:$port/page" 2>/dev/null || exit 25
