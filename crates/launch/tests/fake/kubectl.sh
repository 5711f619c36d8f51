#!/bin/sh
# Stands in for kubectl: writes its arguments and input to $0.log and answers from files beside it:
# VERB-KIND.{out,err,code} (the second word, whatever it is) or VERB.{out,err,code}; nothing and 0 if there are none.
set -eu
folder=$(dirname "$0")
echo "$*" >> "$0.log"
while [ "${1#--}" != "$1" ]; do shift 2; done
[ "$1" = apply ] && cat > "$folder/applied" || cat > /dev/null
answer="$folder/$1-$2"
[ -e "$answer.out" ] || [ -e "$answer.err" ] || answer="$folder/$1"
[ ! -e "$answer.out" ] || cat "$answer.out"
[ ! -e "$answer.err" ] || cat "$answer.err" >&2
[ ! -e "$answer.code" ] || exit "$(cat "$answer.code")"
