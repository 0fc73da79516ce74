#compdef redrive
# Completions of redrive for zsh. The program itself knows what may follow.
_redrive() {
    local line
    local -a candidates
    while IFS= read -r line; do
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <("${words[1]}" __complete -- "${(@)words[1,CURRENT]}" 2>/dev/null </dev/null)
    if (( ${#candidates} )); then
        _describe -V redrive candidates
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_redrive" ]; then
    _redrive "$@"
else
    compdef _redrive redrive
fi
