TIMEFORMAT=$__sl_d;\builtin eval "$__sl" <"$__sl_w" >"${__sl_w[1]}" 2>"${__sl_w[2]}"
# A command in the shell itself. The engine sets __sl (the text) and __sl_w (input, output, errors) before it sources this.
# The code is the first line, because bash counts the lines of the text from there.
