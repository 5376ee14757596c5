# For scripts that fetch Debian packages into a folder: sourced, with $apt (a folder for apt's own files) and
# $suite set. Defines private_apt: apt-get with lists, cache and state of its own, on the mirror that apt on this
# machine is set up with, so neither root nor a change to the machine's sources is needed. Signatures are checked.
#
# LZ_PEERS_MIRROR  address of another Debian mirror
# shellcheck shell=sh disable=SC2154  # suite and apt are the caller's

say() { printf '%s\n' "lz-otel: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

# Sandbox user: apt, run as root, would else drop to a user that cannot write here.
private_apt() {
    apt-get -qq \
        -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts="$apt/parts" \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$apt/parts" \
        -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" \
        -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false -o Acquire::Retries=3 "$@"
}

set_up_apt() { # makes $apt, and reads the lists of $suite
    mirror=${LZ_PEERS_MIRROR:-}
    if [ -z "$mirror" ]; then
        # The plain suites come before those for security and updates, which hold no other suite.
        mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' \
            'Origin: Debian' | awk '$2 == "main" && $1 !~ /-/ { print $3; exit }')
    fi
    if [ -z "$mirror" ]; then
        # Before the first "apt-get update" there are no targets, but it can be asked where it would go.
        release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
        mirror=$(apt-get update --print-uris 2>/dev/null |
            sed -n "s|^'\\(.*\\)/dists/${release:-stable}/InRelease'.*|\\1|p" | head -n 1)
    fi
    [ -n "$mirror" ] || fail "apt knows no Debian mirror (apt-get indextargets). LZ_PEERS_MIRROR names one."
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts" "$apt/debs"
    touch "$apt/status"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    options="arch=$(dpkg --print-architecture)"
    [ ! -r "$keyring" ] || options="$options signed-by=$keyring"
    printf 'deb [%s] %s %s main\n' "$options" "$mirror" "$suite" >"$apt/sources.list"
    private_apt update ||
        fail "cannot read the suite $suite. Is the mirror reachable, and Debian's? LZ_PEERS_MIRROR names another."
}

unpack() { # unpack TREE PACKAGE… : fetches packages of the suite into a folder
    into=$1
    shift
    (cd "$apt/debs" && rm -f ./*.deb && private_apt download "$@") || fail "cannot download: $*"
    for deb in "$apt"/debs/*.deb; do
        dpkg -x "$deb" "$into"
    done
    rm -f "$apt"/debs/*.deb
}
