\builtin trap "$__sl_x" RTMAX-3;TIMEFORMAT=$__sl_d __sl_d=;\builtin eval "$__sl"
# As careful.sh, for a text that sets its own descriptors.
