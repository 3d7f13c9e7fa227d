# tests/clients/client.sh
# Calls a rate-limited API as it asks to be called: sh client.sh URL, the key in the environment as API_KEY.
# Needs curl, awk, and a sleep that takes fractions of a second (GNU, BSD and busybox have one).
set -u

url=${1:?usage: client.sh URL}
max_attempts=8     # of one call
max_wait_ms=120000 # told to wait longer than this, the caller should do something else meanwhile
max_calls=1000     # of the demonstration below
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The key goes to curl through a file: an argument could be read by everyone on the machine.
printf 'header = "Accept: application/json"\n' >"$work/config"
if [ -n "${API_KEY:-}" ]; then
    printf 'header = "Authorization: Bearer %s"\n' "$API_KEY" >>"$work/config"
fi

give_up() {
    echo "gave up: $1" >&2
    exit 1
}

# The whole number that field $1 of the last answer holds, or nothing.
field() {
    tr -d '\r' <"$work/headers" | awk -v name="$1" -F ': *' \
        'tolower($1) == name && $2 ~ /^[0-9]+$/ { print $2; exit }'
}

# Milliseconds after which to try again, given the attempt's number: what the server asks for and up to a tenth more,
# else exponential backoff with full jitter.
wait_ms() {
    advised=$(field retry-after-ms)
    if [ -z "$advised" ]; then
        seconds=$(field retry-after)
        [ -n "$seconds" ] && advised="${seconds}000"
    fi
    # awk's own seed is the second, which all clients share.
    awk -v advised="$advised" -v attempt="$1" -v seed="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')" 'BEGIN {
        srand(seed)
        if (advised != "") { extra = advised / 10; wait = advised + rand() * (extra < 1000 ? extra : 1000) }
        else { most = 500 * 2 ^ (attempt - 1); wait = rand() * (most < 30000 ? most : 30000) }
        printf "%.0f\n", wait + 0.5
    }'
}

# One call: sets `status` to that of its last attempt, and `refused` when one of them was a 429.
call() {
    attempt=1
    while [ "$attempt" -le "$max_attempts" ]; do
        : >"$work/headers"
        status=$(curl --silent --show-error --max-time 30 --config "$work/config" \
            --dump-header "$work/headers" --output "$work/body" --write-out '%{http_code}' "$url")
        case $status in
        000 | 503) ;;
        429) refused=yes ;;
        *)
            echo "attempt $attempt: $status"
            return
            ;;
        esac
        if [ "$status" = 429 ] && [ -z "$(field retry-after)" ] && grep -q '"cost_exceeds_limit"' "$work/body"; then
            give_up "the request costs more than its limit can ever allow"
        fi
        wait=$(wait_ms "$attempt")
        # Compared by awk: a shell's integers may be too small for what a server can say.
        awk -v wait="$wait" -v most="$max_wait_ms" 'BEGIN { exit !(wait <= most) }' || give_up "told to wait $wait ms"
        pause=$(awk -v wait="$wait" 'BEGIN { printf "%.3f", wait / 1000 }')
        echo "attempt $attempt: $status, waiting $pause s"
        sleep "$pause"
        attempt=$((attempt + 1))
    done
    give_up "refused $max_attempts times"
}

# Calls until one call was refused and then let in.
calls=0
refused=no
while [ "$calls" -lt "$max_calls" ]; do
    call
    [ "$status" = 200 ] || give_up "answered $status"
    [ "$refused" = yes ] && exit 0
    calls=$((calls + 1))
done
give_up "never refused"
