#!/bin/sh
# Starts the ledger's Redis (7.0 or later) with redis.conf and users.acl of this folder; further arguments are options
# of redis-server. The passwords come from the environment; only their SHA-256 is written.
#
#   REDIS_PASSWORD        the gateway's: REDIS_URL=redis://gateway:PASSWORD@HOST:6379/0
#   REDIS_ARCHIVER_PASSWORD  of the user `archiver`; without one nobody can log in as `archiver`
#   REDIS_ADMIN_PASSWORD  the operator's, for the user `admin`; without one nobody can log in as `admin`
#
# An ACL file cannot contain comments, so the users of users.acl are described in this file.
#   default   off: a client must send a user name. This user still needs every right: Redis 7.0 reads its append-only file
#             as this user, and drops each transaction in it that the user may not run - and then starts, empty.
#   gateway   the commands that the gateway sends or its scripts call, which Redis checks against the same user, on
#             the ledger's keys. No DEL, no FLUSHALL, no CONFIG SET, no KEYS, no SHUTDOWN: whoever has taken over the
#             gateway can spend budgets, but cannot wipe the ledger in one command. `config|get` is how the gateway
#             checks at its start that the server is durable.
#   archiver  the same checks, and XTRIM: removes entries of the journal that are in the archive (trim.lua). Nothing else
#             may remove entries. PRIVACY_GATEWAY_ARCHIVE_REDIS_URL has its password, in the gateway or only in the
#             environment of `privacy-gateway ledger archive`.
#   admin     everything
set -eu
umask 077

folder=$(cd "$(dirname "$0")" && pwd)
users=${REDIS_USERS_FILE:-/tmp/users.acl}

sha256() {
    printf %s "$1" | sha256sum | cut -d " " -f 1
}

gateway=$(sha256 "${REDIS_PASSWORD:?choose a password for the ledger}")
archiver=$(sha256 "${REDIS_ARCHIVER_PASSWORD:-$(head -c 32 /dev/urandom | base64)}")
admin=$(sha256 "${REDIS_ADMIN_PASSWORD:-$(head -c 32 /dev/urandom | base64)}")
sed -e "s/GATEWAY_PASSWORD_SHA256/$gateway/" -e "s/ADMIN_PASSWORD_SHA256/$admin/" \
    -e "s/ARCHIVER_PASSWORD_SHA256/$archiver/" "$folder/users.acl" > "$users"
unset REDIS_PASSWORD REDIS_ARCHIVER_PASSWORD REDIS_ADMIN_PASSWORD

exec redis-server "$folder/redis.conf" --aclfile "$users" "$@"
