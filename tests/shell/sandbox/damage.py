"""Ways to damage a file without any program that a list would name; each works in plain bash.

`$T` is the victim, `$D` its directory. Every way must leave the file's bytes, mode or place changed when nothing
guards it; a test says so, so that none is a dud.
"""

WAYS: dict[str, str] = {
    "redirection": 'echo gone > "$T"',
    "redirection that appends": 'echo more >> "$T"',
    "redirection that clobbers": 'set -C; echo gone >| "$T"',
    "empty redirection": ': > "$T"',
    "exec redirection": 'exec 9> "$T"; echo gone >&9',
    "read-write descriptor": 'exec 9<> "$T"; printf XX >&9',
    "tee": 'echo gone | tee "$T"',
    "cp over it": 'cp /etc/hostname "$T"',
    "mv over it": 'cp /etc/hostname x && mv -f x "$T"',
    "mv away": 'mv "$T" ./taken',
    "rename in place": 'mv "$T" "$T.bak"',
    "unlink": 'unlink "$T"',
    "rm": 'rm -f "$T"',
    "truncate": 'truncate -s 0 "$T"',
    "dd": 'dd if=/dev/zero of="$T" bs=4 count=1 conv=notrunc status=none',
    "sed in place": "sed -i 's/precious/gone/' \"$T\"",
    "perl in place": "perl -pi -e 's/precious/gone/' \"$T\"",
    "perl unlink": "perl -e 'unlink $ARGV[0]' \"$T\"",
    "perl truncate": "perl -e 'truncate($ARGV[0], 0)' \"$T\"",
    "perl chmod": "perl -e 'chmod 0, $ARGV[0]' \"$T\"",
    "python write": 'python3 -c \'import sys; open(sys.argv[1], "w").write("gone")\' "$T"',
    "python remove": "python3 -c 'import os, sys; os.remove(sys.argv[1])' \"$T\"",
    "python truncate by path": "python3 -c 'import os, sys; os.truncate(sys.argv[1], 1)' \"$T\"",
    "python read-only open that truncates": (
        "python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_TRUNC)' \"$T\""
    ),
    "python rename over it": 'echo x > x; python3 -c \'import os, sys; os.replace("x", sys.argv[1])\' "$T"',
    "python memory map": (
        'python3 -c \'import mmap, sys; f = open(sys.argv[1], "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:4] = b"GONE"\' '
        '"$T"'
    ),
    "python chmod of a read-only descriptor": (
        "python3 -c 'import os, sys; os.fchmod(os.open(sys.argv[1], os.O_RDONLY), 0)' \"$T\""
    ),
    "find -delete": 'find "$D" -name keep.txt -delete',
    "find -fprint": 'find "$D" -name keep.txt -fprint "$T"',
    "xargs": 'echo "$T" | xargs rm -f',
    "chmod": 'chmod 000 "$T"',
    "chmod through a descriptor": 'chmod 000 /dev/fd/9 9< "$T"',
    "chmod with a relative path": 'cd "$D" && chmod 777 keep.txt',
    "chmod through a link": 'ln -s "$T" link && chmod 000 link',
    "touch back in time": 'touch -d 2001-01-01 "$T"',
    "link out of it and write": 'ln "$T" hard && echo gone > hard',
    "symbolic link and write": 'ln -s "$T" soft && echo gone > soft',
    "symbolic link over it": 'ln -sf /etc/hostname "$T"',
    "install": 'install -m 600 /etc/hostname "$T"',
    "rsync-like tar": 'echo gone > keep.txt && tar cf - keep.txt | tar xf - -C "$D"',
    "sort onto itself": 'sort -r -o "$T" /etc/hostname',
    "awk": 'awk \'BEGIN { print "gone" > ARGV[1] }\' "$T"',
    "rename its directory": 'mv "$D" "$D-moved"',
    "through /proc": 'cd "$D" && echo gone > /proc/self/cwd/keep.txt',
    "shred": 'shred -n 1 "$T"',
    "split": 'cd "$D" && printf x | split -b 1 -a 3 - p && mv paaa keep.txt',
    "flags": 'chattr +d "$T"',
    "user attribute": 'python3 -c \'import os, sys; os.setxattr(sys.argv[1], "user.gone", b"1")\' "$T"',
}
