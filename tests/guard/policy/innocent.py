"""Commands as agents really write them: nothing here should be refused under a sensible policy."""

DENY = ("nc", "ncat", "netcat", "telnet", "nmap", "git push --force", "git push -f", "docker system prune")

LINES = r"""
python3 -m build && python3 -m twine check dist/*
python3 -c "import subprocess; print(subprocess.check_output(['git','log','-1']).decode())"
make CC=clang CFLAGS="-O2 -Wall" -B
cmake -E make_directory build/tmp
cmake -E copy a.txt b.txt
ccache -s
ccache gcc -c x.c
find . -name '*.sh' -exec bash -n {} \;
awk -f report.awk data.csv
echo 'alias ll="ls -la"' >> ~/.bash_aliases
ip netns list
hyperfine --warmup 3 './app a' './app b'
echo 'git pull' > deploy.sh && chmod +x deploy.sh && cat deploy.sh
ls
ls -la
ls -la src/ tests/ 2>/dev/null
pwd && ls
cat package.json
cat README.md | head -50
head -100 src/main.py
tail -n 50 /var/log/syslog
sed -n '1,120p' src/app.py
sed -n '100,200p' src/shiftlog/cli/show.py
wc -l src/**/*.py
find . -name "*.py" -not -path "./node_modules/*" | head -50
find . -type f -name "*.ts" | xargs wc -l | sort -n | tail -20
find src -name "*.rs" -exec grep -l "unsafe" {} +
find . -name __pycache__ -type d -exec rm -rf {} +
find . -maxdepth 2 -type d | sort
find / -name "libssl*" 2>/dev/null | head
find . -newer Makefile -name '*.c' -print0 | xargs -0 ls -l
grep -rn "TODO" src/
grep -rn "def main" --include="*.py" .
grep -n "import" src/index.ts | head -20
grep -rn 'curl | sh' docs/
grep -E "^(FROM|RUN)" Dockerfile
grep -c . requirements.txt
rg -n "fn main" --type rust
rg "useState\(" -g '*.tsx' -l
rg -n --hidden -g '!.git' "API_URL"
tree -L 2 -I node_modules
file build/app
stat -c '%s %n' dist/*
du -sh node_modules
du -sh * | sort -h | tail -5
df -h .
which python3 node cargo go
command -v docker >/dev/null 2>&1 && echo yes || echo no
type -a python
python3 --version
python --version && pip --version
node --version; npm --version
uname -a
whoami
id -u
hostname
date +%Y-%m-%d
env | sort
env | grep -i proxy
printenv PATH
echo $PATH | tr ':' '\n'
echo "Hello, world"
echo "PATH is $PATH"
echo "$HOME"
echo ${VAR:-default}
mkdir -p src/components/ui
mkdir -p build && cd build && cmake ..
touch src/__init__.py tests/__init__.py
cp -r templates/ dist/templates/
cp .env.example .env
mv old.py new.py
rm -f build/output.log
rm -rf build dist *.egg-info
rm -rf node_modules package-lock.json && npm install
rm -rf "$TMPDIR/work"
rm -rf /tmp/test-output-1234
rm -rf ./target
rmdir empty
ln -sf ../shared/config.yml config.yml
chmod +x scripts/deploy.sh
chmod 644 README.md
chown -R app:app data
cd /srv/app && git status
cd frontend && npm run build
cd "$(git rev-parse --show-toplevel)"
pushd src > /dev/null && ls && popd > /dev/null
git status
git status --short
git status --porcelain | wc -l
git diff
git diff --stat HEAD~1
git diff HEAD -- src/app.py | head -100
git diff --cached --name-only
git log --oneline -10
git log --oneline --graph --all | head -30
git log -p --follow -- src/app.py | head -200
git log --format="%h %an %s" --since="2 weeks ago"
git show HEAD --stat
git show HEAD:src/app.py | sed -n '1,40p'
git branch -a
git checkout -b feature/login
git checkout main && git pull --rebase
git switch -c fix/crash
git add -A
git add src/app.py tests/test_app.py
git add -p
git commit -m "Fix the parser"
git commit -m "fix rm -rf bug"
git commit -am "Add tests; update docs && bump version"
git commit --amend --no-edit
git push origin HEAD
git push -u origin feature/login
git push origin "$(git branch --show-current)"
git fetch --all --prune
git stash && git stash pop
git rebase main
git rebase -i HEAD~3
git merge --no-ff feature/login
git cherry-pick abc1234
git reset --hard HEAD
git reset HEAD~1
git clean -fd
git tag -a v1.0.0 -m "Release 1.0.0"
git remote -v
git remote add upstream https://example.com/x/y.git
git blame -L 10,20 src/app.py
git bisect start HEAD v1.0
git grep -n "deprecated"
git ls-files | wc -l
git ls-files '*.py' | xargs wc -l
git rev-parse HEAD
git config user.name "Agent"
git config --get remote.origin.url
git worktree add ../wt main
git submodule update --init --recursive
git clone https://example.com/repo.git
git clone --depth 1 https://example.com/repo.git /tmp/repo
git apply --check fix.patch
git format-patch -1 HEAD
git -C /srv/app log -1
git --no-pager log -5
git -c user.name=x -c user.email=y@example.com commit -m wip
GIT_PAGER=cat git log -3
gh pr create --title "Fix" --body "See #12"
gh pr list --state open --json number,title
gh run view 12345 --log-failed | tail -50
npm install
npm ci
npm i -D typescript @types/node
npm test
npm test -- --watchAll=false
npm run build
npm run lint -- --fix
npm run dev &
npm ls --depth=0
npm audit fix
npm outdated
npx tsc --noEmit
npx prettier --write "src/**/*.ts"
npx eslint . --ext .ts,.tsx
npx jest --coverage
npx vitest run src/foo.test.ts
npx playwright test
yarn install --frozen-lockfile
yarn build
pnpm install
pnpm -r test
pnpm exec tsc
bun test
node index.js
node -e "console.log(1+1)"
node -e "const p=require('./package.json'); console.log(p.version)"
node -p "process.version"
deno run --allow-net main.ts
python3 -m venv .venv
python3 -m venv .venv && source .venv/bin/activate && pip install -r requirements.txt
source .venv/bin/activate
. .venv/bin/activate && pytest -q
.venv/bin/python -m pytest -q -x tests/guard
pip install -e '.[dev]'
pip install -r requirements.txt -q
pip list | grep -i django
pip show requests
pip freeze > requirements.txt
pytest
pytest -q
pytest tests/test_app.py::test_login -vv
pytest -k "not slow" --maxfail=1 --tb=short 2>&1 | tail -30
python -m pytest tests/ -x -q 2>&1 | tail -20
python -m unittest discover -s tests
python script.py --input data.csv --output out.json
python -c "print('hello')"
python3 -c "import sys; print(sys.version)"
python3 -c "import json; d=json.load(open('a.json')); print(len(d))"
python3 -c 'import django; print(django.VERSION)'
python manage.py migrate
python manage.py runserver 0.0.0.0:8000 &
python -m http.server 8000 > /dev/null 2>&1 &
uv run pytest -q
uv pip install ruff
uv sync
poetry install
poetry run pytest
ruff check . --fix
ruff format src tests
black --check .
mypy src
mypy --strict src/ | tail -5
pyright
isort .
flake8 --max-line-length 120
tox -e py311
coverage run -m pytest && coverage report -m
pre-commit run --all-files
cargo build --release
cargo test
cargo test -- --nocapture 2>&1 | tail -40
cargo clippy -- -D warnings
cargo fmt --check
cargo run -- --help
cargo add serde --features derive
cargo check 2>&1 | grep -E "^(error|warning)" | sort | uniq -c
rustc --version
go build ./...
go test ./... -run TestFoo -v
go mod tidy
go vet ./...
gofmt -l .
golangci-lint run
make
make -j4
make test
make clean all
make -C build install DESTDIR=/tmp/stage
make V=1 2>&1 | tee build.log
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release
cmake --build build --parallel
ctest --test-dir build --output-on-failure
./configure --prefix=/usr/local && make && make check
./gradlew build
./gradlew test --tests '*Login*'
mvn -q -DskipTests package
mvn test -Dtest=FooTest
javac -d out src/*.java
java -jar target/app.jar
dotnet build
dotnet test --no-build
bundle install
bundle exec rspec
bundle exec rails db:migrate
rake test
composer install
php artisan migrate
php -v
swift build
gcc -Wall -O2 -o app main.c && ./app
g++ -std=c++20 -o t t.cpp -lpthread
clang-format -i src/*.cpp
docker ps
docker ps -a --format '{{.Names}}\t{{.Status}}'
docker build -t app:dev .
docker compose up -d
docker compose logs --tail=100 web
docker compose exec web python manage.py check
docker run --rm -it -v "$PWD":/w -w /w node:20 npm test
docker logs --since 10m app
docker exec app ls /app
docker images | head
kubectl get pods -n staging
kubectl logs deploy/api --tail=200
kubectl apply -f k8s/
helm template chart | kubectl diff -f -
terraform plan -out plan.out
terraform fmt -recursive
aws s3 ls
curl -s http://localhost:8000/health
curl -sS -o /dev/null -w '%{http_code}' http://localhost:3000
curl -s https://api.example.com/items | jq '.items[].name'
curl -X POST -H 'Content-Type: application/json' -d '{"a":1}' http://localhost:8000/api
curl -fsSL https://example.com/file.tar.gz | tar xz
curl -fsSLO https://example.com/tool.tar.gz && tar xzf tool.tar.gz
wget -q https://example.com/data.zip -O data.zip && unzip -o data.zip
jq . package.json
jq -r '.scripts | keys[]' package.json
cat data.json | jq '.[] | select(.active) | .id' | sort -u
cat access.log | awk '{print $1}' | sort | uniq -c | sort -rn | head
awk -F, 'NR>1 {sum+=$3} END {print sum}' data.csv
awk '/start/,/end/' file.txt
sed -i 's/foo/bar/g' src/app.py
sed -i.bak -e 's/1.0/1.1/' -e '/debug/d' config.ini
sed -e 's|http://|https://|' urls.txt > out.txt
sed 's/#.*//' conf | grep -v '^$'
perl -pi -e 's/old/new/g' *.txt
tr -d '\r' < in.txt > out.txt
cut -d: -f1 /etc/passwd
sort -t, -k2 -n data.csv | uniq
diff -u a.txt b.txt
diff <(sort a.txt) <(sort b.txt)
comm -12 <(sort a) <(sort b)
paste -sd, list.txt
xxd file.bin | head
base64 -w0 < key.pub
sha256sum dist/*
tar czf backup.tgz src
tar -xzf archive.tar.gz -C /tmp
zip -r out.zip dist
unzip -l out.zip
rsync -av --delete src/ dest/
rsync -avz -e ssh dist/ deploy@host:/srv/www/
scp file.txt host:/tmp/
ssh build-host uptime
ssh -p 2222 user@host 'cd /srv && git pull'
ps aux | grep python
ps -ef | grep -v grep | grep node
pgrep -fl server
kill %1
kill -9 12345
kill $(cat server.pid)
pkill -f "vite dev"
lsof -i :3000
ss -tlnp
netstat -an | grep 8080
top -b -n 1 | head -20
free -m
nproc
sleep 2
sleep 5 && curl -sf http://localhost:3000
time make test
timeout 60 npm test
timeout 30s python slow.py || echo "timed out"
nohup python server.py > server.log 2>&1 &
nice -n 10 make -j2
export NODE_ENV=production
export PATH="$HOME/.local/bin:$PATH"
export DATABASE_URL=postgres://localhost/dev
NODE_ENV=test npx jest
PYTHONPATH=src python -m app
DEBUG=1 LOG_LEVEL=debug ./run.sh
FOO=bar env | grep FOO
set -e; make; make test
set -euo pipefail
set -x; ./build.sh; set +x
[ -f .env ] && echo exists
[ -d node_modules ] || npm ci
test -f Makefile && make
if [ -f package.json ]; then npm ci; fi
if [[ "$OSTYPE" == linux* ]]; then echo linux; fi
if git diff --quiet; then echo clean; else echo dirty; fi
for f in *.py; do echo "$f"; done
for f in src/*.ts; do wc -l "$f"; done | sort -n
for i in {1..5}; do echo $i; sleep 0.1; done
for i in $(seq 1 3); do curl -s localhost:8000/$i; done
for d in */; do (cd "$d" && git status -s); done
for pkg in a b c; do npm view $pkg version; done
for ((i=0;i<3;i++)); do echo $i; done
while read -r line; do echo "$line"; done < file.txt
while ! curl -s localhost:8000; do sleep 1; done
until pg_isready; do sleep 1; done
ls *.md | while read f; do echo "== $f"; head -1 "$f"; done
find . -name '*.sh' | while read -r f; do bash -n "$f"; done
case "$1" in start) echo s;; stop) echo t;; esac
x=$(git rev-parse HEAD); echo "$x"
VERSION=$(cat VERSION) && echo "v$VERSION"
count=$(grep -c error log.txt || true); echo "$count errors"
files=$(git diff --name-only); echo "$files" | wc -l
arr=(a b c); for x in "${arr[@]}"; do echo "$x"; done
echo $((1 + 2 * 3))
i=0; ((i++)); echo $i
printf '%s\n' a b c
printf "%-20s %s\n" name value
read -p "Continue? " ans < /dev/null || true
trap 'rm -f "$tmp"' EXIT; tmp=$(mktemp); echo x > "$tmp"
tmp=$(mktemp -d) && cp -r src "$tmp" && ls "$tmp"
greet() { echo "hi $1"; }; greet bob
function build { make -j"$(nproc)"; }; build
alias ll='ls -la'
echo "a" > out.txt; echo "b" >> out.txt
echo "data" | tee out.txt
cat a.txt b.txt > c.txt
{ echo a; echo b; } > out.txt
(cd build && make) && echo done
make > build.log 2>&1; tail -5 build.log
command 2>&1 >/dev/null true
true && echo ok || echo fail
xargs -n1 echo < list.txt
cat urls.txt | xargs -P4 -I{} curl -sO {}
git diff --name-only | xargs -r ruff check
ls | xargs -I{} sh -c 'echo {}'
bash scripts/build.sh
bash -c 'echo hi && date'
sh ./install.sh --prefix=/tmp
./scripts/test.sh
bash -n deploy.sh
bash -x run.sh 2>&1 | head
sudo apt-get update && sudo apt-get install -y jq
apt-get install -y --no-install-recommends build-essential
sudo systemctl restart nginx
systemctl status nginx --no-pager
journalctl -u app -n 50 --no-pager
brew install jq
psql -c 'select count(*) from users' mydb
psql "$DATABASE_URL" -f schema.sql
sqlite3 app.db '.tables'
sqlite3 app.db "select * from users limit 5;"
mysql -u root -e 'show databases'
redis-cli ping
ffmpeg -i in.mp4 -vn out.mp3
convert in.png -resize 50% out.png
dd if=/dev/zero of=test.img bs=1M count=10
dd if=a of=b
openssl rand -hex 32
openssl x509 -in cert.pem -noout -dates
ssh-keygen -t ed25519 -f key -N ''
crontab -l
man ls | head -20
history | tail
mkdir dd
grep reboot f
echo "run shutdown later"
cat .github/workflows/ci.yml | grep -n 'run:'
code --version || true
strace -f -o trace.txt ./app
watch -n 1 ls
tmux ls
screen -ls
vim --version | head -1
xdg-open index.html
"""

BLOCKS = [
    (
        "cat > src/app.py <<'EOF'\nimport os\n\ndef main():\n    print(\"hi\")\n\n"
        "if __name__ == '__main__':\n    main()\nEOF"
    ),
    "cat <<EOF > config.yml\nname: $NAME\nport: ${PORT:-8000}\nEOF",
    "cat > run.sh <<'EOF'\n#!/usr/bin/env bash\nset -euo pipefail\nnpm ci\nnpm test\nEOF\nchmod +x run.sh && ./run.sh",
    "python3 - <<'EOF'\nimport json\nwith open('a.json') as f:\n    d = json.load(f)\nprint(len(d))\nEOF",
    "python3 <<'PY'\nfor i in range(3):\n    print(i)\nPY",
    "git commit -F - <<'EOF'\nFix the login flow\n\n- don't crash on empty input\n- \"quote\" handling\nEOF",
    "git commit -m \"$(cat <<'EOF'\nAdd retry (see #12)\n\nIt's better now.\nEOF\n)\"",
    (
        'gh pr create --title "Fix" --body "$(cat <<\'EOF\'\n## Summary\n'
        '- Fix a `bug` in $PATH handling\n- Add tests (2)\nEOF\n)"'
    ),
    "set -e\ncd /srv/app\ngit pull\nnpm ci\nnpm run build\n",
    (
        "for f in $(git diff --name-only HEAD~1); do\n  if [[ $f == *.py ]]; then\n"
        '    python -m py_compile "$f"\n  fi\ndone'
    ),
    "if ! command -v jq &> /dev/null; then\n  echo 'jq missing'\n  exit 1\nfi",
    'while IFS=, read -r name value; do\n  echo "$name=$value"\ndone < pairs.csv',
    'case "$(uname -s)" in\n  Linux*) os=linux ;;\n  Darwin*) os=mac ;;\n  *) os=other ;;\nesac\necho $os',
    "npm run dev > /tmp/dev.log 2>&1 &\nPID=$!\nsleep 3\ncurl -s localhost:3000 | head -5\nkill $PID",
    'docker run --rm \\\n  -v "$(pwd)":/app \\\n  -w /app \\\n  python:3.12 \\\n  pytest -q',
    (
        "curl -s -X POST http://localhost:8000/api/login \\\n  -H 'Content-Type: application/json' \\\n"
        '  -d \'{"user":"a","pass":"b"}\' | jq .'
    ),
    "# build and test\nmake build   # compile\nmake test    # run tests",
    "tee -a .gitignore <<'EOF'\nnode_modules/\n.env\nEOF",
    "psql mydb <<SQL\nselect count(*) from users;\nSQL",
    "sqlite3 app.db <<'EOF'\n.mode column\nselect * from t;\nEOF",
    "echo \"line 1\nline 2 with 'quotes'\nline 3\" > notes.txt",
    "diff <(git show HEAD~1:package.json | jq -S .) <(jq -S . package.json) || true",
    'export A=1 B=2\nprintf \'%s %s\\n\' "$A" "$B"',
    "mkdir -p a/{b,c}/d && touch a/{b,c}/d/file{1..3}.txt && find a -type f",
    (
        "retry() {\n  local n=0\n  until [ $n -ge 3 ]; do\n"
        "    curl -sf http://localhost:8000 && break\n    n=$((n+1))\n    sleep 1\n  done\n}\nretry"
    ),
    'declare -A m=([a]=1 [b]=2)\nfor k in "${!m[@]}"; do echo "$k ${m[$k]}"; done',
    'total=0\nfor n in 1 2 3; do\n  total=$((total + n))\ndone\necho "total=$total"',
    'ls -1 *.log 2>/dev/null | while read -r f; do\n  gzip "$f"\ndone',
    "cat <<'JSON' | jq '.a'\n{\"a\": 1}\nJSON",
    'sed -i "s/version = \\".*\\"/version = \\"1.2.3\\"/" pyproject.toml && git diff --stat',
    "PYTHON=.venv/bin/python\n$PYTHON -m pytest -q",
    "CC=${CC:-gcc}\n$CC -o app main.c",
    'cmd=(pytest -q -x)\n"${cmd[@]}" tests/',
    'eval "$(ssh-agent -s)"',
    'eval "$(pyenv init -)" && python --version',
    "source ~/.nvm/nvm.sh && nvm use 20",
    '[ -s "$NVM_DIR/nvm.sh" ] && . "$NVM_DIR/nvm.sh"',
    "find . -name '*.test.ts' -print0 | xargs -0 -n 10 npx jest",
    "echo 'SELECT 1' | psql -U postgres -h localhost",
    "yes | npx create-vite@latest app --template react-ts",
    "awk 'BEGIN { FS=\"\\t\" } { a[$1]+=$2 } END { for (k in a) print k, a[k] }' data.tsv | sort",
    "git log --pretty=format:'%H|%an|%s' | while IFS='|' read -r h a s; do echo \"$a: $s\"; done | head",
    'test "$(git status --porcelain)" = "" && echo clean',
    "(sleep 1; echo done) & wait",
    "ssh host <<'EOF'\ncd /srv\nls\nEOF",
    "xvfb-run -a npm run test:e2e",
    "flock /tmp/lock make deploy",
    "find . -name '*.orig' -delete; git gc --quiet",
    "SECRET_KEY=$(openssl rand -hex 16) python manage.py check",
    "if [ $? -eq 0 ]; then echo ok; fi",
    "grep -rl 'oldName' src | xargs sed -i 's/oldName/newName/g'",
]

INNOCENT = [*(line for line in LINES.strip().splitlines() if line), *BLOCKS]
