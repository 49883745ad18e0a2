"""Where only the command's text is checked: spellings that hide a program, and plain ones that resemble them."""

import pytest

from shiftlog.guard.bash.words import literal
from shiftlog.guard.policy.files import NoFiles
from shiftlog.guard.policy.filters import awk_runs, sed_runs
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules

DENYING = Judge(shell_rules(OperatorPolicy(), deny=["ls"]), kernel=False, files=NoFiles())
ALLOWING = Judge(shell_rules(OperatorPolicy(), allow=["echo", "git", "find", "xargs"]), kernel=False, files=NoFiles())
FREE = Judge(shell_rules(OperatorPolicy()), kernel=True, files=NoFiles())


@pytest.mark.parametrize(
    "text",
    [
        "{,ls}",
        "{,}{,ls,} /",
        r"env -S 'ls\cx'",
        r"env -S 'A=1\_ls'",
        r"env -S '\c x' ls",
        "env -S '# x' ls",
        "env -S ls -S echo",
        "env -S 'A=\"x y\" ls'",
        "mapfile -tC ls -c1 x <<< a",
        "compgen -aC ls x",
        "chrt -d -T 9 -P 9 -D 9 0 ls",
        "ltrace -D 77 ls",
        "rsync -ave ls a h:b",
        "rsync --rs=ls a h:b",
        "tar cIf ls x.tar f",
        "tar -cI ls -f x.tar f",
        "tar cf x f --use-comp=ls",
        "tar cf /dev/null --checkpoint-act=exec=ls f",
        "TAR_OPTIONS=--to-command=ls tar xf x",
        "sort --compress-prog=ls f",
        "git ls-remote --upload=ls .",
        "git grep -nOls x",
        "git difftool -yx ls",
        "git -c credential.helper=/bin/ls fetch",
        "git -c remote.o.url=ext::ls fetch o",
        "git remote-ext x 'ls -l'",
        "/usr/b*/env ls",
        "echo ls | sh",
        "echo 'l\"\"s -l' | bash -s",
        "cd /dev; echo ls | . ./stdin",
        "echo 'echo; ls' | sudo -u x sh",
        "su app -s /bin/ls -c x",
        "su app -s /bin/sh -c ls",
        "$SHELL -c ls",
        "SHELL=ls; $SHELL -l",
        "ssh localhost ls",
        "ssh -4p 22 -o X=y root@127.0.0.1 'cd x && ls'",
        "ssh localhost <<< ls",
        "ssh -4oProxyCommand=ls h",
        "ssh -vo ProxyCommand=ls h",
    ],
)
def test_the_program_behind_an_option_is_named(text: str) -> None:
    found = DENYING.judge(text)
    assert found.verdict == "denied"
    assert found.violations[0].program in ("ls", "/bin/ls")


@pytest.mark.parametrize(
    "text",
    [
        r"x=-exec; find . $x ls \;",
        r'x=-exec; find . "$x" ls \;',
        'find . "$x" ls "$y"',
        "x='-c alias.y=!ls'; git $x y",
        "x=-c; git \"$x\" 'alias.y=!ls' y",
        'a=(-c alias.y=!ls); git "${a[@]}" y',
        "git -c url.ext::.insteadOf=x: fetch x:ls",
        "set -k; git fetch GIT_SSH_COMMAND=ls",
        "set -eo keyword; git fetch GIT_SSH_COMMAND=ls",
        "set $x; git fetch GIT_SSH_COMMAND=ls",
        "bash -kc 'git fetch GIT_SSH_COMMAND=ls'",
        "bash -o keyword -c 'git fetch GIT_SSH_COMMAND=ls'",
        "sed 1els f",
        "sed -n -e'1e ls' f",
        "sed --expression='1e ls' f",
        "printf -v 'BASH_CMDS[git]' %s /bin/ls; git",
        "read 'BASH_ALIASES[q]' <<< ls",
        "read BASH_ENV <<< x; export BASH_ENV",
        "declare -n r=BASH_CMDS; r[git]=/bin/ls; git",
        "declare -n r='BASH_CMDS[git]'; r=/bin/ls; git",
        "declare -n r; r=BASH_CMDS; r[git]=/bin/ls; git",
        "read x <<< 'b[$(ls)]'; echo $((x))",
        "echo 'b[$(ls)]' | { read x; echo $((x)); }",
        "while read x; do ((x)); done <<< 'b[$(ls)]'",
        "printf -v x %s 'b[$(ls)]'; ((x))",
        "cat x | sh /dev/./stdin",
        "cd /dev; cat x | sh stdin",
        "cd /dev; cat x | . ./stdin",
        "sh /dev//fd/3 3<<< ls",
        "cat m | make -f /dev/stdin",
        "cat m | make -kf- all",
        "cat m | make --makefile - all",
        'cat m | make "$x"',
        "cat m | python3 - a",
        "cat m | python3 /dev/stdin a",
        "cat m | perl /proc/self/fd/0",
        "cat m | gdb -x /dev/stdin",
        "echo 'l\\163' | sh",
        "cat > s <<'E'\nl''s\nE\ncat >> s <<'E'\necho hi\nE\nsh s",
        "cat > s <<'E'\nl''s\nE\nfalse && cat > ./s <<'E'\necho hi\nE\nsh s",
        "echo \"l''s\" > s; echo echo >> s; sh s",
        "echo 'echo hi' > s; sh s",
        "echo x > s; printf l >> s; echo s >> s; sh s",
        'eval "$(cat init bash)"; eval "$(env bash init)"',
        'eval "$(tool init ls)"',
        'eval "$(nl init bash)"',
        'eval "$(tool l s)"',
        "eval \"$(tool env 'bash; l''s')\"",
        'tool() { cat f; }; eval "$(tool init bash)"',
        "/b*/l*",
        "echo x > d/tool; ./*/tool",
        "echo() { printf l; }; echo hi | sh",
        "printf 'l%s' s | sh",
        "cat m | sed -f - x",
        "echo '1e ls' | sed -nf- x",
        "sed -f - x <<< '1e ls'",
        "cat m | awk -f -",
        """echo 'BEGIN{system("ls")}' | awk -f /dev/stdin""",
        "echo 'x: ; ls' | make -f -",
        "echo '* * * * * ls' | crontab -",
        "crontab <<< '* * * * * ls'",
        "echo ls | docker exec -i c sh",
        "tmux send-keys -t 0 'ls -l' Enter",
        "screen -X stuff ls",
        "cat m | perl -Ie",
        "cat m | perl -Mre",
        "cat m | python3 -ic'print(1)'",
        r'find . -exec echo "$x" -exec cat \;',
        r"x='; -exec ls'; find . -exec echo $x {} \;",
        r"a=';'; b=-exec; find . -exec cp $a $b {} \;",
        r"find . -exec mv {} $(basename a/-exec) {} \;",
        r"find . $(date +-exec) {} \;",
        r"find . $(date +%Y%n-exec) {} \;",
        r"date() { :; }; find . -newermt $(date +%Y) {} \;",
        'x=$(date +%Y%nls); bash -c "echo $x"',
        'x=$(git branch --show-current); bash -c "echo $x"',
        'x=$(whoami); "$x"',
    ],
)
def test_what_hides_the_program_is_undecidable(text: str) -> None:
    assert DENYING.judge(text).verdict == "undecidable"


@pytest.mark.parametrize(
    "text",
    [
        "GIT_EXEC_PATH=. git x",
        "git --exec-path=. x",
        "x=('b[$(ls)]'); echo $((x))",
        "declare -n r=$x; r=.; git status",
        "echo a | xargs --process-slot-var=PATH git",
    ],
)
def test_an_allow_list_holds_for_where_programs_are_found(text: str) -> None:
    assert ALLOWING.judge(text).verdict == "undecidable"


@pytest.mark.parametrize(
    "text",
    [
        'find . -name "$x" -exec cat {} \\;',
        'find "$d" -type f -name x',
        "find \"$d\" -name '*.py' -exec grep -n x {} +",
        'find src/*.py -newer "$f"',
        'git -C "$d" status; git --git-dir="$d" log',
        'git log "$a..$b"; git commit -m "$m"',
        "git -c alias.st=status st",
        "git -c credential.helper=store fetch",
        "git --exec-path",
        "tar czf x.tgz f; tar -xf a.tar; tar --exclude=ls -cf x f",
        "sort -c f; rsync -avz ls host:x; ssh -o BatchMode=yes h true",
        "sed -n 's/e/e/;/ls/p' f; sed -i -e 's/a/b/' engine",
        "export -n NAME; declare -i n=1; local_n=1",
        "enable -n echo; enable echo",
        "set -euo pipefail; set +k; set -x -- -k; set a -k; set -- $x; bash -euo pipefail -c 'echo x'",
        "echo {,ls}; {echo,ls}",
        "echo 'a[0]' '$(date)'; read x <<< 'a[1]'",
        "sh ./build.sh < /dev/null",
        r'find . -exec grep -q "$S" {} +; find "$d" -exec grep $S {} \;',
        r"find . -exec chmod 755 {}/* \;; find . -exec tar cf x.tar RS* \;; find . -regex .*perf.*",
        'eval "$(git-wt init bash)"; eval "$(./ruff generate-shell-completion bash)"; . <(kind completion zsh)',
        "./release-*/bin/install --all; /opt/*/bin/tool",
        "find . -newermt $(date +%Y-%m-%d -d '1 day ago') -type f; find /lib/$(uname -r) -name x",
        r"find . -exec mv {} $(dirname {})/.. \;",
        'x=$(date +%s); bash -c "echo $x $(whoami)"',
        "seq 9 | perl -lne'print'; cat x | python3 -c'print(1)'; cat x | ruby -ne'puts'",
        "echo 'print(1)' | python3; echo 'echo hi' | sh; cat x | sed -e 's/x/y/' -",
        "su app -s /bin/sh -c 'make test'; $SHELL -c 'echo x'; find . | xargs -J % cp % x",
        "sed -e 's/YEAR/'`date +%Y`'/g' x; ssh other uptime; tmux send-keys 'make test' Enter",
        "yes '' | make -j4 all; git diff --name-only | entr -c make; cat data | python3 report.py -",
    ],
)  # fmt: skip
def test_plain_commands_pass(text: str) -> None:
    assert DENYING.judge(text).verdict == "allowed"


@pytest.mark.parametrize("text", ["enable ./x.so", "enable nosuch", "BASH_LOADABLES_PATH=. enable -n nosuch"])
def test_a_builtin_that_bash_would_load_from_a_file_is_refused_under_any_rules(text: str) -> None:
    assert FREE.judge(text).verdict == "undecidable"


@pytest.mark.parametrize(
    ("runs", "scripts"),
    [
        (
            True,
            ["e x", "$ex", "/x/Ie x", "1,2!e", "{e x\n}", "p;e x", "s%a%b%ge", "\\,x,e x", "a foo\ne x", ":a;e x",
             "b z;e x", "s/a/b/w f\ne x", "#x\ne x", "l 5;e x", "i\\\nfoo\\\ne\ne x", "s/a/b/m2e"],
        ),
        (
            False,
            ["s/a/e/", "s/a\\/e/b/", "/e/d", "y/e/f/", "a else", "s/a/b/w e", "be;p", ":e", "s/x/\\\ne/", "w e", "r e",
             "1{a\\\ne x\n}", "s/a/e;e/", "\\eaep", "$a e", "/a/,/e/{p;d}"],
        ),
    ],
)  # fmt: skip
def test_scripts_of_sed_that_run_programs_are_known(runs: bool, scripts: list[str]) -> None:
    assert [script for script in scripts if sed_runs([literal(script, 0)]) is not runs] == []
    options = ["-n", "-Ee", "-i.bak", "--expr", "-l5"]
    assert all(sed_runs([literal(word, 0) for word in (option, "e x")]) for option in options)
    assert not sed_runs([literal(word, 0) for word in ("-f", "x", "e")])


@pytest.mark.parametrize(
    ("runs", "programs"),
    [
        (
            True,
            ['BEGIN{system("x")}', "BEGIN { system\n}", '{print | "x"}', '"x"|getline', '@f("x")',
             '{print a/b | "x" /c}', '{print "x" |& "x"}', '{i++ /1|"x"/1}', '{a[1]/2|"x" / 1}',
             '{getline / 2 | "x" / 1}',
             '{print "open', "/open"],
        ),
        (
            False,
            ['$1 == "a" || !n++ {print $2}', "{print $1/2, $2/3}", "/a|b/{print}", '{gsub(/[/|]/,"|"); print "a|b"}',
             "NR==1{print} # | x", "$0 ~ /x\\/|y/ {next}", "{print NR/FNR; print /a|b/}", "/^[^]|]+|[[:space:]|]/"],
        ),
    ],
)  # fmt: skip
def test_programs_of_awk_that_start_others_are_known(runs: bool, programs: list[str]) -> None:
    assert [program for program in programs if awk_runs([literal(program, 0)]) is not runs] == []
    for options in (["-F", "|"], ["-F|"], ["-v", "x=a|b"], ["-e"], ["--"]):
        assert awk_runs([literal(word, 0) for word in (*options, *programs[:1])]) is runs
    assert all(awk_runs([literal(word, 0) for word in options]) for options in (["-f", "x"], ["-Wx"], ["-ix", "1"]))


@pytest.mark.parametrize(
    "text",
    [
        "cp /bin/bash b; ./b -c 'l''s'",
        "cp /usr/bin/env e && ./e x",
        "cat /bin/bash > b; ./b",
        "cat < /bin/bash > b",
        "cd /bin; cp ls /tmp/x",
        "cd /usr/bin && tar cf /tmp/x ls",
        "tar cf - -C /bin ls | tar xf - --transform s/ls/x/; ./x",
        "cp /bin/l? x; ./x",
        "cp $(command -v busybox) x; (exec -a y ./x)",
        "cp /lib64/ld-linux-x86-64.so.2 l; ./l ./x",
        "ln -s /bin/bash sed",
        "dd if=/bin/busybox of=b",
    ],
)
def test_a_copy_of_a_program_under_another_name_is_undecidable(text: str) -> None:
    assert DENYING.judge(text).verdict == "undecidable"


@pytest.mark.parametrize(
    "text",
    [
        "ln -s /usr/bin/python3 /usr/bin/python; ln -s $(which python3) .venv/bin/python",
        "ln -s /usr/bin/vim /usr/bin/vi",
        "ln -sf /bin/bash /bin/sh; cp /bin/busybox rootfs/bin/; ln -s /usr/bin/fdfind ~/.local/bin/fd",
        "cat /usr/bin/env | head -1; xxd /bin/bash | head",
        "cp target/bin/* /usr/local/bin/; cp -r bin/ out/; cd bin && cp run.sh ..",
        "tar -C /usr/local -xzf go.tgz",
    ],
)
def test_a_copy_that_is_known_for_what_it_is_passes(text: str) -> None:
    assert DENYING.judge(text).verdict == "allowed"


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("allowed", "git log --pretty=%H | while read h; do git show --stat $h; done"),
        ("allowed", "git for-each-ref refs/heads | xargs -r git branch -d"),
        ("allowed", 'docker build -t "app:$(git rev-parse HEAD)" .; docker build -t app:$(date +%s) .'),
        ("allowed", 'git -C "$d" show $x; git --git-dir="$d" -c a=b show $x; git ls-remote "$u"'),
        ("allowed", 'git -C "$d" log $x; docker --context "$c" ps $x'),
        ("allowed", 'B=main; git push origin "$B" $B'),
        ("allowed", 'B=$(git branch --show-current); git push -u origin "$B"'),
        ("allowed", "V=1.2; docker buildx build --build-arg V=${V} --label r=$(git rev-parse HEAD) ."),
        ("allowed", 'B="release-$v"; git push origin "$B"; export C="$(git branch --show-current)"; git push o "$C"'),
        (
            "allowed",
            "docker run -v $PWD:/app -w /app image $x; docker run -it $(cat id) sh -c x",
        ),
        ("allowed", "git push $HOME/mirror; git push ssh://$USER@host/x"),
        ("undecidable", "HOME=$x; git push $HOME/mirror"),
        ("undecidable", "docker exec $c docker $x"),
        ("undecidable", 'B="release-$v"; git push origin $B'),
        ("undecidable", 'B="--f$v"; git push origin "$B"'),
        ("undecidable", 'B="$v-release"; git push origin "$B"'),
        ("undecidable", 'B="sys$v"; docker "$B" prune'),
        ("undecidable", "git $x; git -c a=b show $x"),
        ("undecidable", "git -C $d show push"),
        ("undecidable", 'git "-$x" status push $y'),
        ("undecidable", 'B=--force; git push origin "$B"'),
        ("undecidable", 'B=main; if true; then B=--force; fi; git push origin "$B"'),
        ("undecidable", 'if true; then B=main; fi; git push origin "$B"'),
        ("undecidable", 'for B in a --force; do git push "$B"; done'),
        ("undecidable", 'B=$(cat f); git push origin "$B"'),
        ("undecidable", 'B=prune; docker system "$B"'),
        ("undecidable", 'B=$(whoami); docker system "$B"'),
        ("undecidable", "git push $x"),
        ("undecidable", "git p $x"),  # it may be an alias
        ("undecidable", "git subtree $x"),
        ("undecidable", "docker run -v /var/run/docker.sock:/x docker $x"),
        ("undecidable", "docker system $x"),
    ],
)
def test_unknown_arguments_of_another_subcommand_complete_no_entry(verdict: str, text: str) -> None:
    rules = shell_rules(OperatorPolicy(), deny=["git push --force", "docker system prune"])
    assert Judge(rules, kernel=False, files=NoFiles()).judge(text).verdict == verdict
