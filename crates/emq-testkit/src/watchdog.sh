# The parent of the server. It takes one verb a line from its owner and kills the server when the
# owner is gone, which it sees as the end of its input. As the parent it alone reaps the server, so
# that the pid it signals is never a stranger's.
# Its arguments: the server's directory, the signal that ends the server when the owner is gone, and
# the server's own command line.
dir=$1
farewell=$2
shift 2
pid=

# A shell may have reaped a dead server by itself; then its number may belong to another by now.
ours() {
    [ -n "$pid" ] || return 1
    [ -r /proc/self/status ] || return 0
    while read -r key value; do
        if [ "$key" = PPid: ]; then
            [ "$value" = "$$" ]
            return
        fi
    done <"/proc/$pid/status"
    return 1
}

runs() {
    ours || return 1
    [ -r /proc/self/status ] || return 0
    while read -r key value; do
        if [ "$key" = State: ]; then
            [ "${value%% *}" != Z ]
            return
        fi
    done <"/proc/$pid/status"
    return 1
}

signal() {
    ours && kill "-$1" "$pid"
}

bury() {
    signal KILL
    [ -z "$pid" ] || wait "$pid"
    pid=
}

# Lets a server end its own children first, when KILL would leave them. It is asked again and again,
# because one that has just begun doesn't hear yet.
ask() {
    [ "$farewell" != KILL ] || return 0
    # One that was stopped doesn't hear either.
    signal CONT
    tries=0
    while runs && [ "$tries" -lt 250 ]; do
        signal "$farewell"
        sleep 0.02
        tries=$((tries + 1))
    done
}

leave() {
    trap '' HUP INT TERM
    ask
    bury
    # A child that was rewriting the append-only file may still be writing its last.
    rm -rf -- "$dir" || { sleep 1; rm -rf -- "$dir"; }
    exit 0
}

trap leave HUP INT TERM
# An owner that died before it read an answer must not take us along.
trap '' PIPE

while read -r verb; do
    case $verb in
        start)
            "$@" </dev/null >>"$dir/stdio.log" 2>&1 &
            pid=$!
            echo "$pid"
            ;;
        kill) bury; echo done ;;
        term) signal CONT; signal TERM; echo done ;;
        pause) signal STOP; echo done ;;
        resume) signal CONT; echo done ;;
        *) echo unknown ;;
    esac
done
leave
