# debian.bash: which Debian has which version of PostgreSQL. To be sourced.
VERSIONS=(15 17 18)

suite_of() { # suite_of VERSION
  case $1 in
  15) echo bookworm ;;
  17) echo trixie ;;
  18) echo forky ;;
  *) echo "no Debian with PostgreSQL $1 is known: choose from ${VERSIONS[*]}" >&2; return 1 ;;
  esac
}
