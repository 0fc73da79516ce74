# Completions of redrive for bash. The program itself knows what may follow.
_redrive() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("$1" __complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null </dev/null)
}
complete -o default -o bashdefault -F _redrive redrive
