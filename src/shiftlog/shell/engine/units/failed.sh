TIMEFORMAT=$__sl_d;\__shiftlog_status "${__sl[1]}" '' || \builtin eval "$__sl" <"$__sl_w" >"${__sl_w[1]}" 2>"${__sl_w[2]}"
# As plain.sh, after a command that failed: __sl[1] is its status, which the text finds in $?.
