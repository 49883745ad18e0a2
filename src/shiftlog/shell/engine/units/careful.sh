\builtin trap "$__sl_x" RTMAX-3;TIMEFORMAT=$__sl_d __sl_d=;\builtin eval "$__sl" <"$__sl_w" >"${__sl_w[1]}" 2>"${__sl_w[2]}"
# As plain.sh, in a shell that may have its own TIMEFORMAT or trap: __sl_d has the former, and is filled at the end again.
