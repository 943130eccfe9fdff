# clients.sh: a folder for the private servers that Rust starts; with them it is removed at the end of
# the script, however it ends.
# To be sourced; $kind names the tests, $repo is the repository.
SCYLLA_CLIENT_FOLDER=$(mktemp -d "/var/tmp/scylla-$kind.XXXXXX")
export SCYLLA_CLIENT_FOLDER SCYLLA_NO_BUILD=1
chmod 1777 "$SCYLLA_CLIENT_FOLDER" # the server's user makes its standbys there
remove() {
  local server
  for server in "$SCYLLA_CLIENT_FOLDER"/*/; do
    [ ! -d "$server" ] || "$repo/scripts/pg" remove "$server" || true
  done
  rm -rf "$SCYLLA_CLIENT_FOLDER"
}
trap remove EXIT
trap 'exit 130' INT TERM
