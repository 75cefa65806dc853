# Completion of weir for bash: installed where bash-completion finds it, or sourced by hand.

# What the options of each command are; those of "keys" have the action behind a slash.
_weir_options() {
    local key='--policy --store --json --name --limit --ip --api-key --user --tenant --plan --route --value'
    case $1 in
    check) echo '--strict --expand --json' ;;
    explain) echo '--policy --method --path --peer --header --field --user --tenant --plan --cost --request --live --store --exit-code --json' ;;
    simulate) echo '--policy --format --map --from --to --enforce --no-auth --spread --top --decisions --exit-code --json' ;;
    bench) echo '--policy --name --store --plan --threads --clients --seconds --requests --cost --json' ;;
    keys/look | keys/reset) echo "$key" ;;
    keys/block) echo "$key --for --reason" ;;
    keys/unblock) echo "$key --id" ;;
    keys/blocks) echo '--policy --store --json' ;;
    esac
}

_weir() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} at=2
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'check explain simulate keys bench help --help --version' -- "$current")
        return
    fi
    if [ "$command" = help ]; then
        [ "$COMP_CWORD" -ne 2 ] || mapfile -t COMPREPLY < <(compgen -W 'check explain simulate keys bench' -- "$current")
        return
    fi
    if [ "$command" = keys ]; then
        if [ "$COMP_CWORD" -eq 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W 'look reset block unblock blocks --help' -- "$current")
            return
        fi
        command=keys/${COMP_WORDS[at]}
    fi
    case $previous in
    --policy | --request | --decisions)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --format)
        mapfile -t COMPREPLY < <(compgen -W 'common combined json' -- "$current")
        return
        ;;
    --store)
        mapfile -t COMPREPLY < <(compgen -W 'memory: redis:// redis+unix:// redis+sentinel:// redis+cluster://' -- "$current")
        return
        ;;
    esac
    case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(_weir_options "$command") --help" -- "$current") ;;
    *) [[ $command != @(check|simulate) ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    esac
}

complete -o filenames -F _weir weir
