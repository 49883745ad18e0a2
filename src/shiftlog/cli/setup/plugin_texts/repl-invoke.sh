# Shell functions for scripts that log through Shiftlog's REPL; source this file, it runs nothing by itself.
#
#   repl_invoke METHOD [PARAMS]   send one request; PARAMS is JSON or YAML, up to 8 MiB
#   repl_receipt ID               show what became of a request that was queued
#
# The result is one line of JSON. A refused request prints its error and returns 1. Where neither daemon nor store can be
# reached, the request is kept in the spool of the state directory and answered with the receipt code "queued"; the daemon
# carries it out once and in order. POSIX shell; the caller's standard input is left alone.
#
#   SHIFTLOG_REPL     the program to run, default: shiftlog
#   SHIFTLOG_HOME     the state directory, default: the usual one
#   SHIFTLOG_AGENT    the agent that requests belong to

repl_invoke() {
    if [ "$#" -lt 1 ] || [ "$#" -gt 2 ]; then
        echo "usage: repl_invoke METHOD [PARAMS]" >&2
        return 2
    fi
    _repl_params=${2:-}
    _repl_out=
    _repl_status=0 # caught below even where the caller ends at a failure (set -e): the request may still be queued
    if command -v "${SHIFTLOG_REPL:-shiftlog}" >/dev/null 2>&1; then
        _repl_out=$(printf '%s' "$_repl_params" | "${SHIFTLOG_REPL:-shiftlog}" repl --invoke "$1" - 2>/dev/null) ||
            _repl_status=$?
    else
        _repl_status=127
    fi
    if [ "$_repl_status" -eq 0 ]; then
        printf '%s\n' "$_repl_out"
        return 0
    fi
    case $_repl_status:$_repl_out in
        1:*'"code":"storage_error"'* | 1:*'"code": "storage_error"'*) ;;
        1:*'"code":"bootstrap_failed"'* | 1:*'"code": "bootstrap_failed"'*) ;;
        1:?* | 2:*)
            printf '%s\n' "$_repl_out"
            return "$_repl_status"
            ;;
    esac
    if _repl_queue "$1" "$_repl_params"; then
        return 0
    fi
    if [ -n "$_repl_out" ]; then
        printf '%s\n' "$_repl_out"
    else
        printf '%s\n' '{"code":"storage_error","message":"Storage error","retryable":true,"details":{"reason":"neither the store nor the spool can be reached"}}'
    fi
    return 1
}

repl_receipt() {
    "${SHIFTLOG_REPL:-shiftlog}" spool "$1" --json
}

_repl_home() {
    if [ -n "${SHIFTLOG_HOME:-}" ]; then
        printf '%s' "$SHIFTLOG_HOME"
        return
    fi
    case ${XDG_STATE_HOME:-} in
        /*) printf '%s/shiftlog' "$XDG_STATE_HOME" ;;
        *)
            if [ "$(uname -s)" = Darwin ]; then
                printf '%s/Library/Application Support/shiftlog' "$HOME"
            else
                printf '%s/.local/state/shiftlog' "$HOME"
            fi
            ;;
    esac
}

_repl_base64() {
    printf '%s' "$1" | base64 | tr -d '\n'
}

# Written whole under another name and then moved, so that nobody ever reads half a request; the number in the name keeps
# requests of one second in their order.
_repl_queue() (
    umask 077
    set +f
    _folder=$(_repl_home)/spool
    mkdir -p "$_folder" 2>/dev/null || exit 1
    _id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') || exit 1
    _at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    _stamp=$(date -u +%Y%m%dT%H%M%SZ)
    _number=1
    for _waiting in "$_folder"/calls-*.jsonl; do
        [ -e "$_waiting" ] && _number=$((_number + 1))
    done
    _name=$(printf 'calls-%s-%06d-%s' "$_stamp" "$_number" "$_id")
    printf '{"v":1,"id":"%s","at":"%s","method_base64":"%s","params_base64":"%s","cwd_base64":"%s","agent_base64":"%s"}\n' \
        "$_id" "$_at" "$(_repl_base64 "$1")" "$(_repl_base64 "$2")" "$(_repl_base64 "$(pwd -P)")" \
        "$(_repl_base64 "${SHIFTLOG_AGENT:-}")" >"$_folder/.$_name.draft" 2>/dev/null || {
        rm -f "$_folder/.$_name.draft"
        exit 1
    }
    mv "$_folder/.$_name.draft" "$_folder/$_name.jsonl" 2>/dev/null || exit 1
    printf '{"receipt":{"code":"queued","session_id":null,"seq":null,"hash":null,"redactions":0},"id":"%s","warnings":[]}\n' "$_id"
)
