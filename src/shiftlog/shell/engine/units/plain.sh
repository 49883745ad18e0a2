# A command in the shell itself. The engine sets __sl (the text) and __sl_w (input, output, errors) before it sources this.
TIMEFORMAT=$__sl_d
\builtin eval "$__sl" <"$__sl_w" >"${__sl_w[1]}" 2>"${__sl_w[2]}"
