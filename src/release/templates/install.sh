#!/bin/sh
# Installs Weir @VERSION@ from a folder of release files, or from the address of one:
#
#   sh install.sh [FOLDER|URL] [--to FOLDER]
#
# It checks the SHA-256 of what it installs, and the signature where minisign and a public key (WEIR_RELEASE_KEY) are
# there. Without --to it goes to /usr/local/bin, or to ~/.local/bin for who may not write there.
set -eu

from='@URL@'
to=''
while [ $# -gt 0 ]; do
  case "$1" in
    --to) to=${2:?--to takes a folder}; shift 2 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) from=$1; shift ;;
  esac
done

fail() { echo "install.sh: $*" >&2; exit 1; }

[ -n "$from" ] || from=$(dirname "$0")

case "$(uname -s)" in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there is no program for $(uname -s) here; on Windows, unpack the archive for windows-x64" ;;
esac
case "$(uname -m)" in
  x86_64 | amd64) machine=x64 ;;
  aarch64 | arm64) machine=arm64 ;;
  *) fail "there is no program for $(uname -m)" ;;
esac
libc=''
if [ "$system" = linux ]; then
  # musl's loader has its name from the machine; where glibc's is there as well, glibc is the system's.
  for loader in /lib/ld-musl-*.so.1; do
    [ -e "$loader" ] && [ ! -e /lib64/ld-linux-x86-64.so.2 ] && [ ! -e /lib/ld-linux-aarch64.so.1 ] && libc=-musl
  done
fi
name=weir-@VERSION@-$system-$machine$libc
archive=$name.tar.gz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

bring() {
  case "$from" in
    http://* | https://*)
      if command -v curl >/dev/null 2>&1; then curl -fsSL -o "$work/$1" "$from/$1"
      elif command -v wget >/dev/null 2>&1; then wget -q -O "$work/$1" "$from/$1"
      else fail 'neither curl nor wget is here'; fi ;;
    *) cp "$from/$1" "$work/$1" ;;
  esac || fail "$from has no $1"
}

bring SHA256SUMS
bring "$archive"

if [ -n "${WEIR_RELEASE_KEY:-}" ] && command -v minisign >/dev/null 2>&1; then
  bring SHA256SUMS.minisig
  minisign -Vqm "$work/SHA256SUMS" -P "$WEIR_RELEASE_KEY" || fail 'the signature of the release does not hold'
fi

wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
[ -n "$wanted" ] || fail "SHA256SUMS does not name $archive"
if command -v sha256sum >/dev/null 2>&1; then found=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
elif command -v shasum >/dev/null 2>&1; then found=$(shasum -a 256 "$work/$archive" | cut -d ' ' -f 1)
else fail 'neither sha256sum nor shasum is here'; fi
[ "$wanted" = "$found" ] || fail "$archive is not what SHA256SUMS says"

if [ -z "$to" ]; then
  to=/usr/local/bin
  mkdir -p "$to" 2>/dev/null || true
  [ -w "$to" ] || to=$HOME/.local/bin
fi
mkdir -p "$to"

tar -xzf "$work/$archive" -C "$work"
# In two steps: a program that runs is replaced, never written over.
cp "$work/$name/weir" "$to/.weir.new"
chmod 755 "$to/.weir.new"
mv -f "$to/.weir.new" "$to/weir"

"$to/weir" version >/dev/null 2>&1 || {
  [ -z "$libc" ] || fail "$to/weir does not start: it needs musl 1.2.4 or newer (Alpine 3.18) and the packages libstdc++ and libgcc (apk add libstdc++ libgcc)"
  fail "$to/weir does not start here"
}
echo "installed $("$to/weir" version) as $to/weir"
case ":$PATH:" in
  *":$to:"*) echo 'next: weir init' ;;
  *) echo "$to is not on your PATH; next: $to/weir init" ;;
esac
